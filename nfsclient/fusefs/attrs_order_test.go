// Names in a directory with calls, replies and foreign changes in all orders. "Foreign" means: by
// another client. A foreign change voids all earlier names in time.

package fusefs

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A directory is a directory on a server that runs changes one at a time, and a mount's cache of
// it.
type directory struct {
	object
	rng     *rand.Rand
	shared  bool // the server omits attributes from before a change
	now     time.Time
	version uint32 // number of changes
	foreign uint32 // version of the last foreign change
	pending []*dirCall
	names   []believed
}

// A dirCall is a call in flight, on its way to the server or back.
type dirCall struct {
	kind    dirCallKind
	sent    stamp
	content uint64 // the cache's content number when the call started, for the name in its reply
	done    bool   // the server has run the call
	pre, is uint32
}

type dirCallKind int

const (
	callLook   dirCallKind = iota // returns attributes
	callChange                    // makes a name
	callLookup                    // looks up a name
)

// A believed is a name in the cache, with the directory's version at which it was right.
type believed struct {
	content uint64
	version uint32
}

func newDirectory(seed uint64, shared bool) *directory {
	d := &directory{rng: rand.New(rand.NewPCG(seed, 0)), shared: shared, now: time.Unix(1, 0), version: 1}
	d.lim = timeouts{3 * time.Second, 60 * time.Second}
	d.ask(callLook)
	return d
}

func (d *directory) send(kind dirCallKind) {
	if kind == callChange {
		d.begin()
	}
	d.tick++
	d.pending = append(d.pending, &dirCall{kind: kind, sent: stamp{d.tick, d.now}, content: d.content})
}

// step runs one of the calls at the server, or delivers its reply.
func (d *directory) step() {
	i := d.rng.IntN(len(d.pending))
	c := d.pending[i]
	if !c.done {
		c.done, c.pre = true, d.version
		if c.kind == callChange {
			d.version++
		}
		c.is = d.version
		return
	}
	d.pending = append(d.pending[:i], d.pending[i+1:]...)
	var pre *nfs3.Fattr
	if c.kind == callChange && !d.shared {
		pre = new(dirVersion(c.pre))
	}
	d.reply(c.sent, dirVersion(c.is), pre, c.kind == callChange)
	switch c.kind {
	case callChange:
		d.tick++
		d.end(d.tick)
	case callLookup:
		d.names = append(d.names, believed{c.content, c.is})
	}
}

// settle delivers all replies.
func (d *directory) settle() {
	for len(d.pending) > 0 {
		d.step()
	}
}

// ask makes a call without others in flight.
func (d *directory) ask(kind dirCallKind) {
	d.send(kind)
	d.settle()
}

// wrong reports whether a cached name is older than a foreign change.
func (d *directory) wrong() bool {
	for _, n := range d.names {
		if n.content == d.content && n.version < d.foreign {
			return true
		}
	}
	return false
}

// In any order of events, after the attributes have timed out and been fetched, no cached name is
// older than a foreign change.
func TestForeignNamesAreSeen(t *testing.T) {
	for seed := range uint64(20000) {
		d := newDirectory(seed, seed%2 > 0)
		for range 5 + d.rng.IntN(40) {
			switch what := d.rng.IntN(7); {
			case what <= int(callLookup):
				d.send(dirCallKind(what))
			case what == 3:
				d.version++
				d.foreign = d.version
			case what == 4:
				d.now = d.now.Add(time.Duration(d.rng.IntN(4000)) * time.Millisecond)
			case len(d.pending) > 0:
				d.step()
			}
		}
		d.settle()
		d.now = d.now.Add(d.lim.max)
		if d.ask(callLook); d.wrong() {
			t.Fatalf("seed %d: names of before version %d are believed", seed, d.foreign)
		}
	}
}

// If the replies to successive calls have the attributes from before each call, no name is voided.
func TestOwnNamesAreKept(t *testing.T) {
	for seed := range uint64(200) {
		d := newDirectory(seed, false)
		for range 50 {
			d.ask(dirCallKind(d.rng.IntN(3)))
			d.now = d.now.Add(time.Duration(d.rng.IntN(10)) * time.Second)
		}
		if d.content != 0 {
			t.Fatalf("seed %d: void, and nobody else has changed it", seed)
		}
	}
}
