// Offers each chart as a file of its own: as SVG, and as PNG of twice its size. The colours are those that the
// reader sees. Without scripts the pages lack these two buttons, and nothing else.
(() => {
  const shown = [
    "display", "fill", "fill-opacity", "font-family", "font-size", "font-variant-numeric", "font-weight", "opacity",
    "paint-order", "stroke", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-opacity", "stroke-width", "text-anchor",
  ];

  // The chart with the page's styles in its elements.
  const alone = (chart) => {
    const copy = chart.cloneNode(true);
    const elements = [chart, ...chart.querySelectorAll("*")];
    const copies = [copy, ...copy.querySelectorAll("*")];
    elements.forEach((element, at) => {
      const style = getComputedStyle(element);
      shown.forEach((name) => copies[at].style.setProperty(name, style.getPropertyValue(name)));
    });
    const { width, height } = chart.viewBox.baseVal;
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    const figure = getComputedStyle(chart.closest("figure")).backgroundColor;
    const seeThrough = "rgba(0, 0, 0, 0)";
    copy.style.background = figure === seeThrough ? getComputedStyle(document.body).backgroundColor : figure;
    const text = new XMLSerializer().serializeToString(copy);
    return { url: "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text), width, height };
  };

  const save = (url, name) => {
    const link = document.createElement("a");
    [link.href, link.download] = [url, name];
    link.click();
  };

  const savePng = (chart, name) => {
    const { url, width, height } = alone(chart);
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      save(canvas.toDataURL("image/png"), name);
    };
    image.src = url;
  };

  document.querySelectorAll("figure").forEach((figure) => {
    const [chart, source] = [figure.querySelector("svg"), figure.querySelector(".source")];
    if (!chart || !source) return;
    const title = [document.querySelector("h1"), figure.querySelector("h3")].map((it) => it?.textContent ?? "");
    const name = title.join(" ").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
    const button = (text, run) => {
      const made = document.createElement("button");
      [made.type, made.textContent] = ["button", text];
      made.addEventListener("click", run);
      return made;
    };
    source.prepend(
      button("SVG", () => save(alone(chart).url, name + ".svg")), " · ",
      button("PNG", () => savePng(chart, name + ".png")), " · ",
    );
  });
})();
