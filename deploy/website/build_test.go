// The site built from this repository: links and anchors lead to existing places, every page can be
// reached, and the search works.

package main

import (
	"encoding/json"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "site")
	if err == nil {
		_, err = build("../..", dir)
	}
	return dir, err
})

func TestMain(m *testing.M) {
	status := m.Run()
	if dir, err := built(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(status)
}

// readSite returns the files of the site by path.
func readSite(t *testing.T) map[string]string {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		name, _ := filepath.Rel(dir, p)
		files[filepath.ToSlash(name)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	address    = regexp.MustCompile(`(?:src|srcset|href)="([^"]*)"`)
	identifier = regexp.MustCompile(`id="([^"]*)"`)
)

// identifiers returns the names on a page to which a link can lead.
func identifiers(page string) map[string]bool {
	all := map[string]bool{"": true}
	for _, m := range identifier.FindAllStringSubmatch(page, -1) {
		all[html.UnescapeString(m[1])] = true
	}
	return all
}

// broken returns what is wrong with an address on a page, or "". to is the page of the site to
// which the address leads, if any.
func broken(files map[string]string, page, ref string) (to, problem string) {
	u, err := url.Parse(html.UnescapeString(ref))
	if err != nil {
		return "", err.Error()
	}
	if u.Scheme != "" {
		return "", ""
	}
	if to = page; u.Path != "" {
		to = path.Join(path.Dir(page), u.Path)
	}
	text, ok := files[to]
	switch {
	case !ok:
		return "", "there is no " + to
	case !identifiers(text)[u.Fragment]:
		return "", to + " has no anchor " + u.Fragment
	}
	return to, ""
}

// TestLinks follows every link from the first page. Each link must lead to an existing file and
// anchor, and all pages must be reached.
func TestLinks(t *testing.T) {
	files := readSite(t)
	reached, queue := map[string]bool{"index.html": true}, []string{"index.html"}
	links := 0
	for len(queue) > 0 {
		page := queue[0]
		queue = queue[1:]
		for _, m := range address.FindAllStringSubmatch(files[page], -1) {
			links++
			to, problem := broken(files, page, m[1])
			if problem != "" {
				t.Errorf("%s: %s: %s", page, m[1], problem)
			}
			if strings.HasSuffix(to, ".html") && !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	for name := range files {
		if strings.HasSuffix(name, ".html") && !reached[name] {
			t.Errorf("no link leads to %s", name)
		}
	}
	if links < 1000 {
		t.Errorf("%d links, want at least 1000", links)
	}
}

// TestBrokenLinksAreFound: the checker finds broken links.
func TestBrokenLinksAreFound(t *testing.T) {
	files := map[string]string{"a/b.html": `<h2 id="c">`, "d.html": ""}
	for ref, good := range map[string]bool{
		"b.html": true, "#c": true, "b.html#c": true, "../d.html": true, "https://example.org/x": true,
		"d.html": false, "#x": false, "b.html#x": false, "../d.html#c": false,
	} {
		if _, problem := broken(files, "a/b.html", ref); (problem == "") != good {
			t.Errorf("%s: %q, want good: %v", ref, problem, good)
		}
	}
}

// TestNothingIsLoadedFromElsewhere: scripts, styles, fonts and pictures are files of the site.
func TestNothingIsLoadedFromElsewhere(t *testing.T) {
	loads := regexp.MustCompile(`(?:src|srcset)="[a-z]*:?//[^"]*"|<link[^>]*href="(?:https?:)?//[^"]*"|@import|url\(`)
	for name, text := range readSite(t) {
		if name == "sections.js" || strings.HasSuffix(name, ".svg") {
			continue // search data, or a picture: nothing in it is loaded
		}
		if found := loads.FindString(text); found != "" {
			t.Errorf("%s has %s", name, found)
		}
	}
}

// readSections returns the entries of the search.
func readSections(t *testing.T, files map[string]string) (all []section) {
	t.Helper()
	text := strings.TrimSuffix(strings.TrimPrefix(files["sections.js"], "const sections = "), ";\n")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSections: each entry of the search leads to an existing place, and each page has an entry.
func TestSections(t *testing.T) {
	files := readSite(t)
	found := map[string]bool{}
	for _, s := range readSections(t, files) {
		to, problem := broken(files, "index.html", s.URL)
		if problem != "" {
			t.Errorf("%s: %s", s.URL, problem)
		}
		if found[to] = true; s.Page == "" {
			t.Errorf("%s has no title", s.URL)
		}
	}
	for name := range files {
		if strings.HasSuffix(name, ".html") && !found[name] {
			t.Errorf("the search does not know %s", name)
		}
	}
}

// TestSearchInBrowser: for a query, the site's script shows exactly the sections with the query's
// words, without an error.
func TestSearchInBrowser(t *testing.T) {
	const browser = "chromium-headless-shell"
	if _, err := exec.LookPath(browser); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("needs " + browser)
	}
	want := map[string]bool{}
	for _, s := range readSections(t, readSite(t)) {
		text := strings.ToLower(s.Page + " " + s.Title + " " + s.Text)
		if strings.Contains(text, "lookupcache") && strings.Contains(text, "names") {
			want[s.URL] = true
		}
	}
	dir, _ := built()
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=10000", "--enable-logging=stderr", "--dump-dom", "file://"+dir+"/docs/mount.html?q=lookupcache+Names")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if i := strings.Index(said.String(), "CONSOLE"); i >= 0 {
		t.Errorf("the console has %s", said.String()[i:])
	}
	results := regexp.MustCompile(`(?s)<section id="results".*?</section>`).FindString(string(out))
	found := regexp.MustCompile(`<li><a href="\.\./([^"]*)">`).FindAllStringSubmatch(results, -1)
	for _, m := range found {
		if !want[m[1]] {
			t.Errorf("%s is found, and has not both words", m[1])
		}
	}
	if len(found) == 0 || len(found) != len(want) {
		t.Errorf("%d results, want %d", len(found), len(want))
	}
	if mark := `<mark>lookupcache</mark>`; !strings.Contains(results, mark) {
		t.Errorf("the results lack %s", mark)
	}
}

// TestAnchors: headings have the same anchors as on GitHub.
func TestAnchors(t *testing.T) {
	d := &document{page: "x.html"}
	if err := d.convert([]byte("# `a` b: c!\n\ntext *one*\n\n## Two_x words\n\n## Two_x words\n\n| a | b |\n|---|---|\n| c | d |\n")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<h1 id="a-b-c">`, `<h2 id="two_x-words">`, `<h2 id="two_x-words-1">`, `<td>c</td>`, `<a class="anchor" href="#two_x-words-1"`, `</table></div>`} {
		if !strings.Contains(string(d.body), want) {
			t.Errorf("no %s in %s", want, d.body)
		}
	}
	if d.title != "a b: c!" {
		t.Errorf("title %q, want %q", d.title, "a b: c!")
	}
	if len(d.sections) != 3 {
		t.Fatalf("%d sections, want 3", len(d.sections))
	}
	if got := d.sections[2]; got.URL != "x.html#two_x-words-1" || got.Text != "a b c d" {
		t.Errorf("section %+v", got)
	}
}
