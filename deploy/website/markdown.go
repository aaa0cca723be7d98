// Converts Markdown to HTML, with GitHub's anchors for headings and links to the site's pages.

package main

import (
	"bytes"
	"fmt"
	"html/template"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// repository is the address of files that have no page.
const repository = "https://github.com/nfsrdma/nfsrdma/"

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	// the documents are ours, and use HTML for light and dark pictures
	goldmark.WithRendererOptions(html.WithUnsafe()),
)

// anchors makes heading identifiers like GitHub's.
type anchors struct{ used map[string]int }

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// Generate implements parser.IDs.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(string(value)), ""), " ", "-")
	n := a.used[id]
	if a.used[id]++; n > 0 {
		id = fmt.Sprint(id, "-", n)
	}
	return []byte(id)
}

// Put implements parser.IDs. Only headings have identifiers.
func (a *anchors) Put([]byte) {}

// convert fills in a page's HTML, title, contents and sections.
func (d *document) convert(source []byte) error {
	ctx := parser.NewContext(parser.WithIDs(&anchors{used: map[string]int{}}))
	tree := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(ctx))
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, tree); err != nil {
		return err
	}
	d.body = template.HTML(dress(b.String()))
	here := section{URL: d.page}
	var words strings.Builder
	end := func() {
		if here.Text = strings.Join(strings.Fields(words.String()), " "); here.Text != "" || here.Title != "" {
			d.sections = append(d.sections, here)
		}
		words.Reset()
	}
	for n := tree.FirstChild(); n != nil; n = n.NextSibling() {
		h, ok := n.(*ast.Heading)
		if !ok {
			plain(&words, n, source)
			continue
		}
		end()
		var title strings.Builder
		plain(&title, h, source)
		value, _ := h.AttributeString("id")
		id, _ := value.([]byte)
		here = section{Title: strings.TrimSpace(title.String()), URL: d.page + "#" + string(id)}
		switch {
		case d.title == "" && h.Level == 1:
			d.title, here.URL = here.Title, d.page
		case h.Level == 2:
			d.contents = append(d.contents, heading{string(id), here.Title})
		}
	}
	end()
	if d.title == "" {
		return fmt.Errorf("no heading of the first level")
	}
	for i := range d.sections {
		d.sections[i].Page = d.title
	}
	return nil
}

var headed = regexp.MustCompile(`(?s)<h([2-6]) id="([^"]*)">(.*?)</h[2-6]>`)

// dress adds self-links to headings, and makes wide tables scroll separately.
func dress(page string) string {
	page = headed.ReplaceAllString(page, `<h$1 id="$2">$3 <a class="anchor" href="#$2" aria-label="Link to this section">#</a></h$1>`)
	return strings.NewReplacer("<table>", `<div class="wide" role="region" aria-label="Table" tabindex="0"><table>`, "</table>", "</table></div>").Replace(page)
}

// plain appends a node's text, without markup.
func plain(b *strings.Builder, n ast.Node, source []byte) {
	if n.Type() == ast.TypeBlock {
		if n.Kind() == ast.KindHTMLBlock {
			return
		}
		if lines := n.Lines(); n.Kind() == ast.KindFencedCodeBlock || n.Kind() == ast.KindCodeBlock {
			for i := range lines.Len() {
				line := lines.At(i)
				b.Write(line.Value(source))
			}
		}
	}
	switch n := n.(type) {
	case *ast.Text:
		b.Write(n.Segment.Value(source))
		if n.SoftLineBreak() || n.HardLineBreak() {
			b.WriteByte(' ')
		}
	case *ast.String:
		b.Write(n.Value)
	case *ast.AutoLink:
		b.Write(n.Label(source))
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		plain(b, c, source)
	}
	if n.Type() == ast.TypeBlock {
		b.WriteByte(' ')
	}
}

// reference matches an attribute with an address. Quotation marks in text are escaped, so a match
// is always in an element.
var reference = regexp.MustCompile(`(src|srcset|href)="([^"]*)"`)

// link rewrites the addresses on a page: documents to pages, pictures to copies, other files to the
// repository.
func (s *site) link(d *document) (err error) {
	d.body = template.HTML(reference.ReplaceAllStringFunc(string(d.body), func(attribute string) string {
		m := reference.FindStringSubmatch(attribute)
		u, e := url.Parse(m[2])
		if e != nil {
			err = fmt.Errorf("%s: %w", d.path, e)
			return attribute
		}
		if u.Scheme != "" || u.Host != "" || u.Path == "" {
			return attribute
		}
		target := path.Join(path.Dir(d.path), u.Path)
		info, e := os.Stat(filepath.Join(s.root, target))
		if e != nil {
			err = fmt.Errorf("%s: a link to %s: %w", d.path, m[2], e)
			return attribute
		}
		to := ""
		switch page := s.docs[target]; {
		case page != nil:
			to = relative(d.page, page.page)
		case m[1] != "href":
			s.files[target] = true
			to = relative(d.page, target)
		case info.IsDir():
			to = repository + "tree/main/" + target
		default:
			to = repository + "blob/main/" + target
		}
		if u.Fragment != "" {
			to += "#" + u.Fragment
		}
		return fmt.Sprintf(`%s="%s"`, m[1], to)
	}))
	return err
}

// relative returns the address of a file as seen from a page.
func relative(page, to string) string {
	return strings.Repeat("../", strings.Count(page, "/")) + to
}
