// ReadDir.

package juicefs

import (
	"errors"
	"sync"
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// ReadDir emits the names in cookie order.
func (f *FS) ReadDir(c nfsserver.Cred, dir nfsserver.Ref, cookie uint64, plus bool, emit func(*nfsserver.Dirent) bool) (bool, error) {
	d, err := f.loadDir(&dir)
	if err == nil {
		err = d.rights().Check(&c, nfsserver.MayRead)
	}
	if err != nil {
		return false, err
	}
	plus = plus && d.rights().May(&c, nfsserver.MayExec)
	l, err := f.list(d, cookie)
	if err != nil {
		return false, err
	}
	p := page{f: f, dir: d, plus: plus, emit: emit, expect: int(f.listings.page.Load())}
	up := d.parent
	if d.ino == f.root {
		up = f.root
	}
	if cookie < cookieDot && !p.dot(".", cookieDot, d.ino) {
		return false, nil
	}
	if cookie < cookieDotDot && !p.dot("..", cookieDotDot, up) {
		return false, nil
	}
	rest := l.after(cookie)
	for len(rest) > 0 {
		if plus {
			p.askAll(l, len(rest))
		}
		next := rest[:min(len(rest), ahead)]
		rest = rest[len(next):]
		if more, err := p.send(l, next); err != nil || !more {
			p.full()
			return false, err
		}
	}
	return true, nil
}

// ahead is the number of names with concurrent queries for attributes.
const ahead = 16

// A page is the part of a listing in one reply.
type page struct {
	f    *FS
	dir  *inode
	plus bool
	emit func(*nfsserver.Dirent) bool
	de   nfsserver.Dirent

	expect, sent int // names that the reply probably has in the end, and has so far
	all          attrs
}

func (p *page) dot(name string, cookie uint64, ino meta.Ino) bool {
	p.de = nfsserver.Dirent{Name: []byte(name), Fileid: uint64(ino), Cookie: cookie}
	return p.emit(&p.de)
}

// An answer is an entry's object and its attributes, or the error instead.
type answer struct {
	ino  meta.Ino
	attr nfsserver.Attr
	err  error
}

// ask reads an entry's attributes. If its object is gone, the name may belong to another one by
// now.
func (p *page) ask(l *listing, e *entry) (a answer) {
	a.ino = e.ino
	if a.attr, a.err = p.f.attrOf(e.ino); !errors.Is(a.err, nfsserver.ErrStale) {
		return a
	}
	n, err := p.f.find(p.dir, string(l.name(e)))
	if err == nil {
		a.ino, a.attr = n.ino, n.attr
	}
	a.err = err
	return a
}

// send emits entries. With plus it omits names removed since the directory was read.
func (p *page) send(l *listing, entries []entry) (more bool, err error) {
	var got [ahead]answer
	if p.plus {
		var wg sync.WaitGroup
		for i := range entries {
			if a, ok := p.known(&entries[i]); ok {
				got[i] = a
			} else {
				wg.Go(func() { got[i] = p.ask(l, &entries[i]) })
			}
		}
		wg.Wait()
	}
	for i := range entries {
		e, a := &entries[i], &got[i]
		if errors.Is(a.err, syscall.ENOENT) {
			continue
		}
		p.de = nfsserver.Dirent{Name: l.name(e), Fileid: uint64(e.ino), Cookie: e.cookie}
		if p.plus && a.err == nil {
			p.de.Fileid = uint64(a.ino)
			p.de.HasAttr, p.de.Attr, p.de.Ref = true, a.attr, p.f.ref(a.ino, a.attr.Type)
		}
		if !p.emit(&p.de) {
			return false, nil
		}
		p.sent++
	}
	return true, nil
}
