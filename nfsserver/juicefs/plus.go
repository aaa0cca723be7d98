// Attributes of all names of a directory by one question, where that costs less than to ask for each.

package juicefs

import (
	"github.com/juicedata/juicefs/pkg/meta"
)

const (
	// eachCosts is what it costs to ask for the attributes of one name, in names of a directory that is read as a whole with attributes: some
	// 20 µs of the server's time and 3.
	eachCosts = 8
	// mostAtOnce bounds how many names are read so: they take 300 bytes each.
	mostAtOnce = 1 << 15
)

// attrs are the attributes of a directory's objects, as they were at one moment of this call.
type attrs struct {
	asked  bool
	closed uint64 // files that had been closed just before
	of     map[meta.Ino]*meta.Attr
}

// askAll reads attributes of the whole directory, once it is probable that those of rest names,
// which are left, are wanted and cost more: the last reply had as many names, or this one has. So
// small replies of a large directory do not read it each time, and it never costs more than twice
// the least.
func (p *page) askAll(l *listing, rest int) {
	n, wanted := len(l.entries), max(p.expect, p.sent)
	if p.all.asked || n > mostAtOnce || min(wanted, rest)*eachCosts < n {
		return
	}
	p.all.asked, p.all.closed = true, p.f.files.closes()
	var all []*meta.Entry
	if no := p.f.m.Readdir(system, p.dir.ino, 1, &all); no != 0 {
		return // each is asked for, and tells what is wrong
	}
	p.all.of = make(map[meta.Ino]*meta.Attr, len(all))
	for _, e := range all {
		p.all.of[e.Inode] = e.Attr
	}
}

// known returns what ask would, if askAll has it.
func (p *page) known(e *entry) (a answer, ok bool) {
	at := p.all.of[e.ino]
	if at == nil || !p.f.files.isTold(e.ino, at, p.all.closed) || p.f.files.hideTrash(e.ino, at) != nil {
		return a, false
	}
	var n inode
	p.f.fill(&n, e.ino, at)
	return answer{ino: e.ino, attr: n.attr}, true
}

// full notes how many names the reply has, after which others are left.
func (p *page) full() {
	if p.plus {
		p.f.listings.page.Store(int64(p.sent))
	}
}
