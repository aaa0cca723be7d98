// Builds the site's files from the documents.

package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed page.html site.css site.js
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "page.html"))

// A document is a Markdown file in the repository, and its page on the site.
type document struct {
	path     string // of the Markdown file, from the repository's root
	page     string // of the HTML file, from the site's root
	title    string
	body     template.HTML
	contents []heading // of the second level
	sections []section
}

// A heading is a link target on a page.
type heading struct{ ID, Text string }

// A section is one search result: the text below a heading.
type section struct {
	Page  string `json:"page"` // the title of the page
	Title string `json:"title"`
	URL   string `json:"url"` // from the root of the site
	Text  string `json:"text"`
}

// A site has the documents and files to build.
type site struct {
	root  string
	docs  map[string]*document // by path
	files map[string]bool      // pictures on the pages, by path
}

// build writes the site of the repository root to a directory and returns the number of pages.
func build(root, out string) (pages int, err error) {
	s := &site{root: root, docs: map[string]*document{}, files: map[string]bool{}}
	paths, err := sources(root)
	if err != nil {
		return 0, err
	}
	for _, p := range paths {
		s.docs[p] = &document{path: p, page: pageOf(p)}
	}
	var all []error
	for _, p := range paths {
		all = append(all, s.render(s.docs[p]))
	}
	if err := errors.Join(all...); err != nil {
		return 0, err
	}
	return len(paths), s.write(out)
}

// sources lists the documents: those in the root and in docs, and the Linux guests' page.
func sources(root string) (paths []string, err error) {
	paths = []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "test/linux/README.md"}
	err = fs.WalkDir(os.DirFS(root), "docs", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(p, ".md") {
			paths = append(paths, p)
		}
		return err
	})
	return paths, err
}

// pageOf returns a document's file on the site.
func pageOf(p string) string {
	if path.Base(p) == "README.md" {
		return path.Join(path.Dir(p), "index.html")
	}
	return strings.TrimSuffix(p, ".md") + ".html"
}

// render makes a document's page.
func (s *site) render(d *document) error {
	text, err := os.ReadFile(filepath.Join(s.root, d.path))
	if err != nil {
		return err
	}
	if err := d.convert(text); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	return s.link(d)
}

// write writes all files.
func (s *site) write(out string) error {
	nav, err := s.navigation()
	if err != nil {
		return err
	}
	for _, d := range s.docs {
		var b bytes.Buffer
		if err := layout.Execute(&b, s.view(d, nav)); err != nil {
			return err
		}
		if err := writeFile(out, d.page, b.Bytes()); err != nil {
			return err
		}
	}
	for p := range s.files {
		b, err := os.ReadFile(filepath.Join(s.root, p))
		if err == nil {
			err = writeFile(out, p, b)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"site.css", "site.js"} {
		b, err := assets.ReadFile(name)
		if err == nil {
			err = writeFile(out, name, b)
		}
		if err != nil {
			return err
		}
	}
	return writeFile(out, "sections.js", s.index())
}

// index returns the search data as a script, because a page opened from disk cannot load other
// files.
func (s *site) index() []byte {
	all := []section{}
	for _, p := range slices.Sorted(maps.Keys(s.docs)) {
		all = append(all, s.docs[p].sections...)
	}
	b, _ := json.Marshal(all)
	return append(append([]byte("const sections = "), b...), ";\n"...)
}

func writeFile(out, name string, b []byte) error {
	to := filepath.Join(out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
