// The attribute cache by itself: order of replies, own and foreign changes, and timeouts.

package fusefs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// An object is a test's file with its attribute cache and tickets.
type object struct {
	tick uint64
	lim  timeouts
	attrs
}

func newObject() *object {
	o := &object{lim: timeouts{3 * time.Second, 60 * time.Second}}
	o.reply(o.call(), version(1), nil, false)
	return o
}

// version returns the attributes of a file after n changes.
func version(n uint32) nfs3.Fattr {
	return nfs3.Fattr{Type: nfs3.TypeReg, Size: uint64(n), Mtime: nfs3.Time{Sec: n}, Ctime: nfs3.Time{Sec: n}}
}

// dirVersion returns the attributes of a directory after n changes.
func dirVersion(n uint32) nfs3.Fattr {
	a := version(n)
	a.Type = nfs3.TypeDir
	return a
}

// call returns the moment of sending a call.
func (o *object) call() stamp {
	o.tick++
	return stamp{o.tick, time.Now()}
}

// reply enters the reply to the call at s.
func (o *object) reply(s stamp, a nfs3.Fattr, pre *nfs3.Fattr, own bool) (foreign bool) {
	r := report{tick: s.tick, sent: s.at, attr: &a, own: own}
	if pre != nil {
		w := pre.Wcc()
		r.pre = &w
	}
	o.tick++
	return o.take(r, o.tick, o.lim)
}

// A reply that was already in flight when a newer call was sent changes nothing.
func TestRepliesNeverGoBack(t *testing.T) {
	o := newObject()
	old, young := o.call(), o.call()
	o.reply(young, version(3), nil, false)
	if o.reply(old, version(2), nil, false); o.attr.Size != 3 || o.expired {
		t.Errorf("size %d after an old reply", o.attr.Size)
	}
	// A later call counts even if the server's clock has been set back.
	if o.reply(o.call(), version(2), nil, false); o.attr.Size != 2 {
		t.Errorf("size %d after a new reply", o.attr.Size)
	}
	// Two different replies within one tick of the server's clock have no order.
	a, b := o.call(), o.call()
	o.reply(b, version(5), nil, false)
	other := version(5)
	other.Mode = 0o600
	if o.reply(a, other, nil, false); !o.expired {
		t.Error("attributes that may be old are trusted")
	}
}

// Only a foreign change voids cached data.
func TestOwnAndForeignChanges(t *testing.T) {
	one, two, three := version(1), version(2), version(3)
	for _, c := range []struct {
		what string
		do   func(o *object) bool
		want bool
	}{
		{"our write, as the attributes before it prove", func(o *object) bool { o.begin(); return o.reply(o.call(), two, &one, true) }, false},
		{"our write, and nothing is said of before", func(o *object) bool { o.begin(); return o.reply(o.call(), two, nil, true) }, false},
		{"a look that finds the same", func(o *object) bool { return o.reply(o.call(), one, nil, false) }, false},
		{"a look that finds another size", func(o *object) bool { return o.reply(o.call(), two, nil, false) }, true},
		{"our write after another's", func(o *object) bool { o.begin(); return o.reply(o.call(), three, &two, true) }, true},
		{"two of our writes, the second one's reply first", func(o *object) bool {
			o.begin()
			first := o.call()
			o.begin()
			second := o.call()
			was := o.reply(second, three, &two, true)
			o.end(o.tick)
			return o.reply(first, two, &one, true) || was
		}, false},
		{"a look while our write is under way", func(o *object) bool {
			o.begin()
			return o.reply(o.call(), two, nil, false)
		}, false},
		{"a look that was under way when our write ended", func(o *object) bool {
			look := o.call()
			o.begin()
			o.call()
			o.tick++
			o.end(o.tick)
			return o.reply(look, two, nil, false)
		}, false},
		{"a change of mode", func(o *object) bool {
			a := one
			a.Mode, a.Ctime = 0o600, nfs3.Time{Sec: 9}
			return o.reply(o.call(), a, nil, false)
		}, false},
	} {
		o := newObject()
		before := o.content
		got := c.do(o)
		if got != c.want || (o.content != before) != c.want {
			t.Errorf("%s: foreign %v, content moved %v", c.what, got, o.content != before)
		}
	}
}

// The timeout grows from the minimum, doubled while nothing changes, to the maximum, and falls back
// at a change.
func TestTrustGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObject()
		for _, seconds := range []int{3, 6, 12, 24, 48, 60, 60} {
			want := time.Duration(seconds) * time.Second
			if got := o.ttl(time.Now()); got != want {
				t.Errorf("trusted for %v, want %v", got, want)
			}
			time.Sleep(want - time.Millisecond)
			if o.ttl(time.Now()) <= 0 {
				t.Error("not trusted for as long as it says")
			}
			time.Sleep(time.Millisecond)
			if o.ttl(time.Now()) > 0 {
				t.Error("trusted for longer than it says")
			}
			o.reply(o.call(), version(1), nil, false)
		}
		o.reply(o.call(), version(2), nil, false)
		if got := o.ttl(time.Now()); got != 3*time.Second {
			t.Errorf("trusted for %v after another's change", got)
		}
		// Time counts from when the call was sent, because the reply may have been in flight for
		// long.
		late := o.call()
		time.Sleep(2 * time.Second)
		o.reply(late, version(2), nil, false)
		if got := o.ttl(time.Now()); got != time.Second {
			t.Errorf("trusted for %v after a reply of 2 s ago", got)
		}
	})
}

// If the server omits the attributes from before our change of a directory, its names keep their
// deadline, however often we change it.
func TestChangeOfUnknownBeginning(t *testing.T) {
	own := func(o *object, n uint32, pre *nfs3.Fattr) bool {
		o.begin()
		foreign := o.reply(o.call(), dirVersion(n), pre, true)
		o.tick++
		o.end(o.tick)
		return foreign
	}
	begin := func() *object {
		o := &object{lim: timeouts{3 * time.Second, 60 * time.Second}}
		o.reply(o.call(), dirVersion(1), nil, false)
		return o
	}
	synctest.Test(t, func(t *testing.T) {
		o := begin()
		for n := range uint32(6) { // each change may hide a foreign change
			if own(o, 2+n, nil) {
				t.Fatalf("change %d counts as foreign, want own", n)
			}
			if o.content != 0 || o.attr.Size != uint64(2+n) {
				t.Fatalf("change %d: content %d, size %d, want 0, %d", n, o.content, o.attr.Size, 2+n)
			}
			time.Sleep(500 * time.Millisecond)
		}
		if o.ttl(time.Now()) > 0 {
			t.Error("our own changes have the names believed for longer")
		}
		if o.reply(o.call(), dirVersion(7), nil, false) {
			t.Error("a stat after that shows a foreign change, want none")
		}
		if ttl := o.ttl(time.Now()); o.content != 1 || ttl != 3*time.Second {
			t.Errorf("a stat after that: content %d, trusted for %v, want 1, 3s", o.content, ttl)
		}
		time.Sleep(3 * time.Second)
		if o.reply(o.call(), dirVersion(7), nil, false) || o.content != 1 {
			t.Errorf("a second look: content %d", o.content)
		}

		// The next change finds the foreign change as a stat does. So does a change whose reply has
		// the directory's earlier attributes.
		for i, pre := range []*nfs3.Fattr{nil, new(nfs3.Fattr)} {
			o = begin()
			own(o, 2, nil)
			time.Sleep(time.Second)
			if pre != nil {
				*pre = dirVersion(2)
			}
			if own(o, 3, pre); o.content != 0 || o.ttl(time.Now()) != 2*time.Second {
				t.Errorf("%d: content %d, trusted for %v", i, o.content, o.ttl(time.Now()))
			}
			time.Sleep(2 * time.Second)
			if own(o, 4, nil); o.content != 1 {
				t.Errorf("%d: content %d after the time", i, o.content)
			}
		}

		// A stat that sees a foreign change voids the names at once. A change of ours whose earlier
		// attributes are the known ones proves that there was no foreign change.
		o = begin()
		own(o, 2, nil)
		if !o.reply(o.call(), dirVersion(3), nil, false) {
			t.Error("a foreign change counts as ours")
		}
		if o.content != 1 || o.unproven {
			t.Errorf("after a foreign change: content %d, unproven %v, want 1, false", o.content, o.unproven)
		}
		o = begin()
		if own(o, 1, nil); o.unproven {
			t.Error("the directory is as it was")
		}
		time.Sleep(3 * time.Second)
		if o.reply(o.call(), dirVersion(1), nil, false); o.content != 0 {
			t.Error("void, and nothing had changed")
		}
	})
}

// Attributes that arrive during our operation on a directory may already count a change by another
// client, and nothing shows that later. So the names that we know are void after their deadline,
// unless the attributes from before our operation prove that all changes were ours.
func TestChangeBesideOthersCalls(t *testing.T) {
	one, two, three := dirVersion(1), dirVersion(2), dirVersion(3)
	for _, c := range []struct {
		what string
		do   func(o *object)
		void bool
	}{
		{"a look finds what our operation has made, of which nothing is said of before", func(o *object) {
			o.begin()
			own := o.call()
			o.reply(o.call(), two, nil, false)
			o.reply(own, two, nil, true)
			o.end(o.tick)
		}, true},
		{"a look finds another's change before our operation", func(o *object) {
			o.begin()
			own := o.call()
			o.reply(o.call(), two, nil, false)
			o.reply(own, three, &two, true)
			o.end(o.tick)
		}, true},
		{"a look that was under way when our operation ended", func(o *object) {
			look := o.call()
			o.begin()
			o.reply(o.call(), two, &one, true)
			o.end(o.tick)
			o.reply(look, three, nil, false)
		}, true},
		{"two of our operations, the second one's reply first", func(o *object) {
			o.begin()
			first := o.call()
			o.begin()
			o.reply(o.call(), three, &two, true)
			o.end(o.tick)
			o.reply(first, two, &one, true)
			o.end(o.tick)
		}, true},
		{"two of our operations, one after the other at the server", func(o *object) {
			o.begin()
			first := o.call()
			o.begin()
			second := o.call()
			o.reply(first, two, &one, true)
			o.end(o.tick)
			o.reply(second, three, &two, true)
			o.end(o.tick)
		}, false},
		{"a look finds nothing new", func(o *object) {
			o.begin()
			own := o.call()
			o.reply(o.call(), one, nil, false)
			o.reply(own, two, &one, true)
			o.end(o.tick)
		}, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &object{lim: timeouts{3 * time.Second, 60 * time.Second}}
				o.reply(o.call(), one, nil, false)
				c.do(o)
				if o.content != 0 {
					t.Error("void before their time")
				}
				time.Sleep(3 * time.Second)
				if o.reply(o.call(), o.attr, nil, false); o.content != 0 != c.void {
					t.Errorf("void is %v", !c.void)
				}
			})
		})
	}
}
