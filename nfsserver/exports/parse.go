// The parser: lines of a path, default options, and clients with theirs.

package exports

import (
	"bytes"
	"fmt"
	"net/netip"
	"path"
	"strings"
)

// maxPath is the longest path that the MOUNT protocol can name (MNTPATHLEN, RFC 1813 §5.1.4).
const maxPath = 1024

// A parser builds the File.
type parser struct {
	scanner
	// keys are clean paths
	byPath map[string]*Export
	byFSID map[uint64]*Export
	// the first specification of each client, for messages about a second one
	given    map[identity]position
	out      File
	mistakes []error
}

// An identity is equal for all specifications that mean the same clients in an export.
type identity struct {
	x    *Export
	kind kind
	name string
	net  netip.Prefix
}

// A position is a place in the text, from 1.
type position struct{ line, column int }

// keep records a mistake after which the rest of the line can still be parsed.
func (p *parser) keep(err error) {
	if err != nil {
		p.mistakes = append(p.mistakes, err)
	}
}

// Parse parses an exports file's text. Errors have type *Error and contain name as the file's name.
// Parse returns the first mistake.
func Parse(name string, text []byte) (*File, error) {
	f, mistakes := ParseAll(name, text)
	if len(mistakes) > 0 {
		return nil, mistakes[0]
	}
	return f, nil
}

// ParseAll is Parse, but continues after a mistake and returns all of them in file order. It parses
// a line to its end unless the start of the next word is unclear. With mistakes the File is nil.
func ParseAll(name string, text []byte) (*File, []error) {
	p := parser{scanner: scanner{file: name, text: text}, byPath: map[string]*Export{}, byFSID: map[uint64]*Export{}, given: map[identity]position{}}
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return nil, []error{p.fail(i, "a NUL byte: this is not a text file")}
	}
	for p.at < len(text) {
		if err := p.line(); err != nil {
			p.keep(err)
			p.skipLine()
		}
	}
	if len(p.mistakes) > 0 {
		return nil, p.mistakes
	}
	for _, x := range p.out.Exports {
		x.rank()
	}
	return &p.out, nil
}

// line parses one line, with its continuation lines.
func (p *parser) line() error {
	p.blanks()
	if p.lineEnd() {
		p.at++
		return nil
	}
	begin := p.at
	dir, err := p.path()
	if err != nil {
		return err
	}
	if dir, err = p.checkPath(begin, dir); err != nil {
		return err
	}
	x := p.byPath[dir]
	if x == nil {
		x = &Export{Path: dir}
		x.Line, _ = p.place(begin)
		p.byPath[dir] = x
		p.out.Exports = append(p.out.Exports, x)
	}
	n, kept, def := len(x.Clients), len(p.mistakes), defaults()
	p.exportfsBreak()
	for {
		p.blanks()
		if p.lineEnd() {
			break
		}
		if p.peek() == '-' {
			p.at++
			err = p.options(&def, "")
		} else {
			err = p.client(x, def)
		}
		if err != nil {
			return err
		}
		if !p.wordEnd() {
			return p.fail(p.at, "a blank is missing here, between two clients")
		}
	}
	if len(x.Clients) == n && len(p.mistakes) == kept {
		return p.fail(begin, "%s has no clients: write *(ro) after it to let everybody read", dir)
	}
	p.at++
	return nil
}

// exportfsBreak skips a line end between a directory and its client, if the next line is a client:
// exportfs -v breaks the line after a long path, and begins the next one with two tabs.
func (p *parser) exportfsBreak() {
	next, ok := bytes.CutPrefix(p.text[min(p.at, len(p.text)):], []byte("\n\t\t"))
	if ok && len(next) > 0 && !bytes.ContainsRune([]byte("/\"# \t\r\n"), rune(next[0])) {
		p.at++
	}
}

// checkPath cleans the path that begins at offset at.
func (p *parser) checkPath(at int, dir string) (string, error) {
	switch {
	case !strings.HasPrefix(dir, "/"):
		return "", p.fail(at, "%q is not an absolute path: a line begins with the directory to export", dir)
	case len(dir) > maxPath:
		return "", p.fail(at, "a path of %d bytes: clients can name %d", len(dir), maxPath)
	}
	for part := range strings.SplitSeq(dir, "/") {
		if part == ".." || part == "." {
			return "", p.fail(at, "%s has %q in it: write the path without", dir, part)
		}
	}
	return path.Clean(dir), nil
}

// client parses one client and its options for export x.
func (p *parser) client(x *Export, o Options) error {
	begin, kept := p.at, len(p.mistakes)
	c, err := Client{}, error(nil)
	if p.peek() == '(' {
		err = p.fail(begin, "%s", p.detached(x))
	} else {
		c, err = p.clientSpec()
	}
	p.keep(err)
	if p.peek() == '(' {
		p.at++
		if err := p.options(&o, ")"); err != nil {
			return err
		}
		if p.peek() != ')' {
			return p.fail(p.at, "options are separated by commas without blanks, and end with a )")
		}
		p.at++
	}
	if len(p.mistakes) > kept {
		return nil // with some options missing it would describe another client
	}
	if word := o.idle(); word != "" {
		return p.fail(begin, "%s is for certificates: write xprtsec=mtls beside it, because otherwise clients need none", word)
	}
	c.Options = o
	c.line, c.column = p.place(begin)
	same := identity{x, c.kind, c.name, c.net}
	if other, ok := p.given[same]; ok {
		return p.fail(begin, "%s has been given for %s before, at %d:%d", c.Spec, x.Path, other.line, other.column)
	}
	p.given[same] = position{c.line, c.column}
	return p.join(begin, x, c)
}

// detached describes a mistake: options without a client directly before them. exports(5) would
// apply them to all hosts.
func (p *parser) detached(x *Export) string {
	line, _ := p.place(p.at)
	if n := len(x.Clients); n > 0 && x.Clients[n-1].line == line {
		spec := x.Clients[n-1].Spec
		return fmt.Sprintf("a blank before the parenthesis: remove it, as in %s(rw); options without a client would be for all hosts", spec)
	}
	return "options without a client: write one directly before them, such as 192.0.2.0/24(rw), or *(ro) for all hosts"
}

// join adds a client to an export.
func (p *parser) join(begin int, x *Export, c Client) error {
	w := c.Options.whole
	if len(x.Clients) == 0 {
		if other := p.byFSID[w.FSID]; w.HasFSID && other != nil {
			return p.fail(begin, "%s has that fsid= already: each export has its own", other.Path)
		}
		if x.Whole = w; w.HasFSID {
			p.byFSID[w.FSID] = x
		}
	}
	if word := x.Whole.differs(&w); word != "" {
		return p.fail(begin, "%s is for the whole of an export: all clients of %s have the same", word, x.Path)
	}
	x.Clients = append(x.Clients, c)
	return nil
}

// differs returns an option that differs between the two, or "".
func (w *Whole) differs(v *Whole) string {
	switch {
	case w.CrossMounts != v.CrossMounts:
		return "crossmnt"
	case w.NoHide != v.NoHide:
		return "nohide"
	case w.SubtreeCheck != v.SubtreeCheck:
		return "subtree_check"
	case w.HasFSID != v.HasFSID || w.FSID != v.FSID:
		return "fsid="
	}
	return ""
}
