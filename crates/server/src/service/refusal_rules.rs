//! What refused clients of the proxy get: a page of the operator's own, and which requests get none.

mod template;

use std::path::Path;

use self::template::Template;
pub(crate) use self::template::Values;
use tidegate_config::proxy::RefusalSettings;
use tidegate_request::Resource;

/// The default has the built-in page and the usual assets.
#[derive(Clone, Default, Debug)]
pub(crate) struct RefusalRules {
    settings: RefusalSettings,
    page: Option<Template>,
}

impl RefusalRules {
    /// Reads the page now, so that a bad one is refused together with its configuration.
    pub(crate) fn from_settings(settings: &RefusalSettings) -> Result<Self, String> {
        let read = |path: &Path| {
            let page = Template::read(path);
            // A path is relative to the working directory, which need not be the one that people think of.
            let whole = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            page.map_err(|why| format!("proxy.refusal.page: {}: {why}", whole().display()))
        };
        let page = settings.page.as_deref().map(read).transpose()?;
        Ok(Self { settings: settings.clone(), page })
    }

    /// What is probably a mistake in the page.
    pub(crate) fn warning(&self) -> Option<String> {
        let (page, path) = (self.page.as_ref()?, self.settings.page.as_ref()?);
        let names: Vec<_> = page.in_single_braces().collect();
        let (first, path) = (names.first()?, path.display());
        let seen: Vec<_> = names.iter().map(|name| format!("`{{{name}}}`")).collect();
        let seen = seen.join(", ");
        Some(format!(
            "proxy.refusal.page: {path}: people see {seen} as it is written: a placeholder has two braces, `{{{{{first}}}}}`"
        ))
    }

    /// Whether people get a page of the operator's.
    pub(crate) const fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// The operator's page, filled in.
    pub(crate) fn page(&self, values: &Values<'_>) -> Option<String> {
        self.page.as_ref().map(|page| page.render(values))
    }

    /// Whether a path in its one spelling is one of the API's.
    pub(crate) fn is_api(&self, path: &str) -> bool {
        self.settings.api.iter().any(|pattern| pattern.matches(path))
    }

    /// What a path in its one spelling asks for.
    pub(crate) fn resource(&self, path: &str) -> Resource {
        let usual = Resource::of_path(path);
        let Some(assets) = self.settings.assets.as_ref().filter(|_| usual != Resource::Api) else {
            return usual;
        };
        let name = path.rsplit('/').next().unwrap_or_default();
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        if assets.iter().any(|asset| extension.eq_ignore_ascii_case(asset)) {
            Resource::Asset
        } else {
            Resource::Document
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_assets_replace_the_usual_ones_and_apis_stay() {
        let settings =
            RefusalSettings { assets: Some(vec!["xyz".to_owned()]), ..RefusalSettings::default() };
        let own = RefusalRules::from_settings(&settings).unwrap();
        let usual = RefusalRules::default();
        for (path, by_usual, by_own) in [
            ("/a.css", Resource::Asset, Resource::Document),
            ("/a.XYZ", Resource::Document, Resource::Asset),
            ("/api/a.xyz", Resource::Api, Resource::Api),
            ("/shop", Resource::Document, Resource::Document),
            ("/a.json", Resource::Api, Resource::Api),
        ] {
            assert_eq!((usual.resource(path), own.resource(path)), (by_usual, by_own), "{path}");
        }
    }
}
