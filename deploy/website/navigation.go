// The navigation list: grouped as in docs/README.md, then the remaining pages by folder.

package main

import (
	"html/template"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A group is a part of the navigation list.
type group struct {
	title string
	docs  []*document
}

// listing is the page that lists the others under second-level headings.
const listing = "docs/README.md"

var linked = regexp.MustCompile(`\]\(([^)#]+\.md)\)`)

// navigation groups the documents. Experiments are linked only from their index.
func (s *site) navigation() (groups []group, err error) {
	taken := map[string]bool{"README.md": true, listing: true}
	take := func(title, p string) {
		i := slices.IndexFunc(groups, func(g group) bool { return strings.EqualFold(g.title, title) })
		if i < 0 {
			i, groups = len(groups), append(groups, group{title: title})
		}
		if s.docs[p] != nil && !taken[p] {
			taken[p] = true
			groups[i].docs = append(groups[i].docs, s.docs[p])
		}
	}
	text, err := os.ReadFile(filepath.Join(s.root, listing))
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(string(text), "\n## ") {
		title, _, _ := strings.Cut(part, "\n")
		title, _, _ = strings.Cut(title, ":")
		for _, m := range linked.FindAllStringSubmatch(part, -1) {
			if !strings.HasPrefix(title, "#") { // before the first group
				take(title, path.Join(path.Dir(listing), m[1]))
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(s.docs)) {
		folder := path.Base(path.Dir(p))
		switch {
		case folder == "lab" && path.Base(p) != "README.md":
		case !strings.HasPrefix(p, "docs/"):
			take("Project", p)
		case folder == "docs":
			take("More", p)
		default:
			take(strings.ToUpper(folder[:1])+folder[1:], p)
		}
	}
	return groups, nil
}

// A view has the data for the layout.
type view struct {
	Title    string
	Body     template.HTML
	Contents []heading
	Root     string // the relative path to the site's root
	Source   string
	Groups   []shownGroup
}

type shownGroup struct {
	Title string
	Links []shownLink
}

type shownLink struct {
	Title, URL string
	Here       bool
}

// view returns a page with the list, with addresses relative to the page.
func (s *site) view(d *document, groups []group) *view {
	v := &view{Title: d.title, Body: d.body, Contents: d.contents, Root: relative(d.page, ""), Source: repository + "blob/main/" + d.path}
	for _, g := range groups {
		shown := shownGroup{Title: g.title}
		for _, to := range g.docs {
			shown.Links = append(shown.Links, shownLink{to.title, relative(d.page, to.page), to == d})
		}
		if len(shown.Links) > 0 {
			v.Groups = append(v.Groups, shown)
		}
	}
	return v
}
