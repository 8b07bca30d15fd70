//! `#[derive(Inline)]` and `#[derive(InlineKey)]` for [nunatak](https://docs.rs/nunatak), which
//! exports both with its feature `derive`. Their examples and their tests are there: a dependency on
//! nunatak would be built beside the one of the workspace, as macros are built for the host.
//!
//! A derived type is stored by way of its image: its fields as nested pairs, or the number of its
//! variant. So the image's types say what fits, and the compiler checks it where the type is
//! declared.

use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as Tokens};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Index, Type, parse_macro_input, parse_quote};

/// The macro of `nunatak::entry::Inline`.
#[proc_macro_derive(Inline)]
pub fn inline(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    inline_impl(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// The macro of `nunatak::entry::InlineKey`.
#[proc_macro_derive(InlineKey)]
pub fn inline_key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    inline_key_impl(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// The image of a type: its type, a value of the type as an image, an image as a value, and, for
/// an enumeration, how many images there are.
struct Image {
    image: Type,
    to: Tokens,
    from: Tokens,
    variants: Option<usize>,
}

fn image_of(input: &DeriveInput) -> Result<Image, Error> {
    match &input.data {
        Data::Struct(data) => Ok(image_of_fields(&data.fields)),
        Data::Enum(data) => {
            if let Some(variant) = data.variants.iter().find(|variant| !variant.fields.is_empty()) {
                let message = "a variant with fields is not stored inline";
                return Err(Error::new(variant.span(), message));
            }
            let count = data.variants.len();
            if count == 0 {
                let message = "an enumeration without variants has no values to store";
                return Err(Error::new(input.ident.span(), message));
            }
            let image: Type = match count {
                1..=0x100 => parse_quote!(u8),
                0x101..=0x1_0000 => parse_quote!(u16),
                _ => parse_quote!(u32),
            };
            let names = || data.variants.iter().map(|variant| &variant.ident);
            let numbers = || (0..count).map(proc_macro2::Literal::usize_unsuffixed);
            let (to_names, to_numbers) = (names(), numbers());
            // The last variant stands for the words that no map holds.
            let from_names = names().take(count - 1);
            let from_numbers = numbers().take(count - 1);
            let last = names().next_back();
            Ok(Image {
                to: quote!(match self { #(Self::#to_names => #to_numbers),* }),
                from: quote!(match image { #(#from_numbers => Self::#from_names,)* _ => Self::#last }),
                image,
                variants: Some(count),
            })
        }
        Data::Union(data) => {
            Err(Error::new(data.union_token.span(), "a union is not stored inline"))
        }
    }
}

/// The fields as nested pairs: `(a, (b, c))`.
fn image_of_fields(fields: &Fields) -> Image {
    let members: Vec<Tokens> = fields
        .iter()
        .enumerate()
        .map(|(at, field)| match &field.ident {
            Some(name) => quote!(#name),
            None => {
                let index = Index::from(at);
                quote!(#index)
            }
        })
        .collect();
    let types: Vec<&Type> = fields.iter().map(|field| &field.ty).collect();
    let Some((last, before)) = types.split_last() else {
        return Image {
            image: parse_quote!(()),
            to: quote!(()),
            from: quote!(Self {}),
            variants: None,
        };
    };
    let mut image: Type = (*last).clone();
    for first in before.iter().rev() {
        image = parse_quote!((#first, #image));
    }
    let own = members.last().expect("as many as types");
    let mut to = quote!(self.#own);
    for member in members.iter().rev().skip(1) {
        to = quote!((self.#member, #to));
    }
    let mut path = quote!(image);
    let mut values = Vec::new();
    for at in 0..members.len() {
        if at + 1 == members.len() {
            values.push(path.clone());
        } else {
            values.push(quote!(#path.0));
            path = quote!(#path.1);
        }
    }
    Image { image, to, from: quote!(Self { #(#members: #values),* }), variants: None }
}

fn inline_impl(input: &DeriveInput) -> Result<Tokens, Error> {
    let Image { image, to, from, variants } = image_of(input)?;
    let name = &input.ident;
    let mut generics = input.generics.clone();
    if !generics.params.is_empty() {
        generics
            .make_where_clause()
            .predicates
            .push(parse_quote!(Self: Copy + Send + Sync + 'static));
        generics
            .make_where_clause()
            .predicates
            .push(parse_quote!(#image: ::nunatak::entry::Inline));
    }
    let (of, on, bounds) = generics.split_for_impl();
    let as_inline = quote_spanned!(span_of(input) => <#image as ::nunatak::entry::Inline>);
    let is_word = match variants {
        Some(count) => quote!(word < #count as u64),
        None => quote!(#as_inline::is_word(word)),
    };
    let every_word = match variants {
        Some(_) => quote!(false),
        None => quote!(#as_inline::EVERY_WORD),
    };
    Ok(quote! {
        #[automatically_derived]
        impl #of ::nunatak::entry::Inline for #name #on #bounds {
            type Size = #as_inline::Size;

            #[inline(always)]
            fn to_word(self) -> u64 {
                let image: #image = #to;
                #as_inline::to_word(image)
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                let image: #image = #as_inline::from_word(word);
                #from
            }

            fn is_word(word: u64) -> bool {
                #is_word
            }

            const EVERY_WORD: bool = #every_word;
        }
    })
}

/// Where the compiler shall point if the fields do not fit: to them, or to the name.
fn span_of(input: &DeriveInput) -> Span {
    match &input.data {
        Data::Struct(data) if !data.fields.is_empty() => data.fields.span(),
        _ => input.ident.span(),
    }
}

fn inline_key_impl(input: &DeriveInput) -> Result<Tokens, Error> {
    let types: Vec<&Type> = match &input.data {
        Data::Struct(data) => data.fields.iter().map(|field| &field.ty).collect(),
        Data::Enum(_) => Vec::new(),
        Data::Union(data) => {
            return Err(Error::new(data.union_token.span(), "a union is not stored inline"));
        }
    };
    let name = &input.ident;
    let mut generics = input.generics.clone();
    let clause = generics.make_where_clause();
    if !input.generics.params.is_empty() {
        clause.predicates.push(parse_quote!(Self: ::nunatak::entry::Inline + Eq));
    }
    for of_field in types {
        let bound = quote_spanned!(of_field.span() => #of_field: ::nunatak::entry::InlineKey);
        clause.predicates.push(syn::parse2(bound)?);
    }
    let (of, on, bounds) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #of ::nunatak::entry::InlineKey for #name #on #bounds {}
    })
}
