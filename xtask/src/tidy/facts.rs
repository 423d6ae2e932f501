//! What the rules want to know of a file's syntax tree, collected in one walk.
//!
//! Knows no rule. Paths inside macros are found in their tokens, since what a macro takes need
//! not be Rust.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, UseTree};

/// What stands in a file.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Paths to other places, outside tests.
    pub paths: Vec<PathUse>,
    /// Lines with the word `unsafe`.
    pub unsafe_lines: Vec<usize>,
    /// Functions with a body.
    pub functions: Vec<Function>,
    /// Calls of methods and macros, outside tests.
    pub calls: Vec<Call>,
    /// First and last line of each inline test module.
    pub test_modules: Vec<(usize, usize)>,
    /// Modules in files of their own that are for tests alone.
    pub test_files: Vec<TestFile>,
    /// Whether the file begins with its documentation.
    pub has_docs: bool,
}

/// A path, made absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathUse {
    /// Where it stands.
    pub line: usize,
    /// From the crate's root, where it began with `crate`, `self` or `super`.
    pub in_crate: bool,
    /// Its parts without those words.
    pub parts: Vec<String>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Its name.
    pub name: String,
    /// The line where its signature begins.
    pub first: usize,
    /// The line of its closing brace.
    pub last: usize,
}

/// A call of a method (`.unwrap()`) or of a macro (`println!`).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Where it stands.
    pub line: usize,
    /// The name, with `!` behind a macro's.
    pub name: String,
}

/// A `#[cfg(test)] mod name;`.
#[derive(Debug)]
pub(super) struct TestFile {
    /// The module's name.
    pub name: String,
    /// What `#[path = …]` says.
    pub at: Option<String>,
}

impl Facts {
    /// Of a file that is this module of its crate.
    pub(super) fn of(file: &syn::File, module: &[String]) -> Self {
        let facts = Self { has_docs: has_docs(&file.attrs), ..Self::default() };
        let mut walk = Walk { facts, module: module.to_vec(), test_depth: 0 };
        walk.visit_file(file);
        walk.facts
    }
}

struct Walk {
    facts: Facts,
    module: Vec<String>,
    test_depth: usize,
}

impl Walk {
    fn within(&mut self, attributes: &[Attribute], visit: impl FnOnce(&mut Self)) {
        let depth = usize::from(is_test(attributes));
        self.test_depth += depth;
        visit(self);
        self.test_depth -= depth;
    }

    fn call(&mut self, line: usize, name: String) {
        if self.test_depth == 0 {
            self.facts.calls.push(Call { line, name });
        }
    }

    fn function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        self.facts.functions.push(Function {
            name: signature.ident.to_string(),
            first: signature.span().start().line,
            last: body.span().end().line,
        });
        if let Some(word) = &signature.unsafety {
            self.is_unsafe(word.span().start().line);
        }
    }

    fn is_unsafe(&mut self, line: usize) {
        self.facts.unsafe_lines.push(line);
    }

    /// Notes a path, resolved against the module it stands in.
    fn path(&mut self, line: usize, parts: &[String]) {
        if self.test_depth > 0 {
            return;
        }
        let mut from_root = match parts.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.module.clone(),
            _ => {
                let parts = parts.to_vec();
                self.facts.paths.push(PathUse { line, in_crate: false, parts });
                return;
            }
        };
        let mut rest = parts;
        while let Some((first, behind)) = rest.split_first() {
            match first.as_str() {
                "super" => drop(from_root.pop()),
                "crate" | "self" => {}
                _ => break,
            }
            rest = behind;
        }
        from_root.extend_from_slice(rest);
        self.facts.paths.push(PathUse { line, in_crate: true, parts: from_root });
    }

    fn use_tree(&mut self, tree: &UseTree, before: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.use_tree(&path.tree, before);
                before.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.use_tree(tree, before));
            }
            UseTree::Name(leaf) => self.use_leaf(leaf.ident.to_string(), tree, before),
            UseTree::Rename(leaf) => self.use_leaf(leaf.ident.to_string(), tree, before),
            UseTree::Glob(_) => self.use_leaf("*".to_owned(), tree, before),
        }
    }

    fn use_leaf(&mut self, name: String, at: &UseTree, before: &[String]) {
        let mut parts = before.to_vec();
        if name != "self" || parts.is_empty() {
            parts.push(name);
        }
        self.path(at.span().start().line, &parts);
    }

    /// Paths, method calls and macros among a macro's tokens.
    fn tokens(&mut self, stream: TokenStream) {
        let tokens: Vec<_> = stream.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let line = tokens[at].span().start().line;
            match &tokens[at] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(word) if word == "unsafe" => self.is_unsafe(line),
                TokenTree::Ident(_) => {
                    let (parts, next) = path_at(&tokens, at);
                    self.token_path(line, &parts, &tokens, at, next);
                    at = next;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn token_path(
        &mut self,
        line: usize,
        parts: &[String],
        tokens: &[TokenTree],
        at: usize,
        next: usize,
    ) {
        let group = |at: usize| match tokens.get(at) {
            Some(TokenTree::Group(group)) => Some(group.delimiter()),
            _ => None,
        };
        let before = at.checked_sub(1).and_then(|at| tokens.get(at));
        let called = group(next) == Some(Delimiter::Parenthesis);
        let last = parts.last().cloned().unwrap_or_default();
        if is_sign(before, '.') {
            if called {
                self.call(line, last);
            }
            return;
        }
        if is_sign(tokens.get(next), '!') && group(next + 1).is_some() {
            self.call(line, last + "!");
        }
        if parts.len() > 1 {
            self.path(line, parts);
        }
    }
}

impl<'ast> Visit<'ast> for Walk {
    fn visit_item(&mut self, item: &'ast Item) {
        self.within(item_attributes(item), |walk| visit::visit_item(walk, item));
    }

    fn visit_impl_item_fn(&mut self, method: &'ast syn::ImplItemFn) {
        self.within(&method.attrs, |walk| {
            walk.function(&method.sig, &method.block);
            visit::visit_impl_item_fn(walk, method);
        });
    }

    fn visit_trait_item_fn(&mut self, method: &'ast syn::TraitItemFn) {
        if let Some(body) = &method.default {
            self.function(&method.sig, body);
        }
        visit::visit_trait_item_fn(self, method);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = module.ident.to_string();
        if is_test(&module.attrs) {
            if module.content.is_some() {
                let first = module.attrs.first().map_or_else(|| module.span(), Spanned::span);
                let lines = (first.start().line, module.span().end().line);
                self.facts.test_modules.push(lines);
            } else {
                let at = path_attribute(&module.attrs);
                self.facts.test_files.push(TestFile { name: name.clone(), at });
            }
        }
        self.module.push(name);
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let parts: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
            self.path(path.span().start().line, &parts);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in path)` names a place, it doesn't use one.
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.is_unsafe(block.unsafe_token.span().start().line);
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(word) = &item.unsafety {
            self.is_unsafe(word.span().start().line);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_foreign_mod(&mut self, item: &'ast syn::ItemForeignMod) {
        if let Some(word) = &item.unsafety {
            self.is_unsafe(word.span().start().line);
        }
        visit::visit_item_foreign_mod(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.call(call.method.span().start().line, call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_meta_list(&mut self, list: &'ast syn::MetaList) {
        self.tokens(list.tokens.clone());
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        if let Some(name) = call.path.segments.last() {
            self.call(call.path.span().start().line, format!("{}!", name.ident));
        }
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

fn is_sign(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// The path that begins at a word among tokens, and where it ends.
fn path_at(tokens: &[TokenTree], mut at: usize) -> (Vec<String>, usize) {
    let mut parts = Vec::new();
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        parts.push(word.to_string());
        at += 1;
        let more = matches!(tokens.get(at + 2), Some(TokenTree::Ident(_)));
        if !(is_sign(tokens.get(at), ':') && is_sign(tokens.get(at + 1), ':') && more) {
            break;
        }
        at += 2;
    }
    (parts, at)
}

/// Whether the attributes make something a test's.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => mentions_test(list.tokens.clone()),
        _ => false,
    })
}

/// Whether `test` stands in a condition, alone or in an `all`.
fn mentions_test(condition: TokenStream) -> bool {
    let mut within_all = false;
    condition.into_iter().any(|token| match token {
        TokenTree::Ident(word) => {
            within_all = word == "all";
            word == "test"
        }
        TokenTree::Group(group) => within_all && mentions_test(group.stream()),
        _ => false,
    })
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(value) = &pair.value else { return None };
        let syn::Lit::Str(text) = &value.lit else { return None };
        pair.path.is_ident("path").then(|| text.value())
    })
}

fn has_docs(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        matches!(attribute.style, syn::AttrStyle::Inner(_)) && attribute.path().is_ident("doc")
    })
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
