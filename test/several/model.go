// The model: files with all their versions, names, and what each actor may still see of them.

package several

import (
	"slices"
)

// A Kind says what an actor is promised.
type Kind struct {
	Name    string
	Local   bool // the served directory itself: each step is of the newest version
	NoCache bool // a mount with noac: as a local one, but what it writes may wait for close
	Command bool // it does Cat, CopyIn, Rename, Unlink and Stat alone, and each asks the server
	NoLocks bool // its locks mean nothing to others, so it takes none
	// Unasked: mmap, sendfile, splice, copies of ranges and lseek may use the size and the pages that the mount
	// has, also with noac. FUSE sends none of them.
	Unasked bool
}

// unasked are the steps that Unasked is about.
var unasked = []Op{Map, Store, SendFile, Splice, CopyRange, SeekEnd, SeekWrite}

// A version is what a file was between two changes.
type version struct {
	data []byte
	mode uint32
	time int64
	acl  int
}

// An inode is a file.
type inode struct {
	versions  []version
	links     int
	published int // the newest version that is with the server for certain
	dirty     int // the actor that has written what is not, or -1
	floor     map[int]int
	removers  map[int]bool // the actors that have removed a name of it
	lock      string       // how it is locked
	holder    int          // the actor and
	holderFd  int          // the open file that have locked it
}

func newInode() *inode {
	return &inode{versions: []version{{mode: 0o644}}, links: 1, dirty: -1, floor: make(map[int]int), removers: make(map[int]bool)}
}

func (i *inode) last() *version { return &i.versions[len(i.versions)-1] }

// An opened is an open file.
type opened struct {
	actor  int
	fd     int
	ino    *inode
	write  bool
	append bool
	lost   bool // the server has no such file any more
}

type fdKey struct{ actor, fd int }

type nameKey struct {
	actor int
	name  string
}

// A model is the state of one schedule's directory.
type model struct {
	kinds []Kind
	names map[string]*inode
	files map[fdKey]*opened
	// seen are the bindings of a name that an actor may have kept, nil for none: empty where it has not asked.
	seen map[nameKey][]*inode
	ever map[string]bool // names that there were
	op   Op              // of the step under way
}

func newModel(kinds []Kind) *model {
	return &model{kinds: kinds, names: make(map[string]*inode), files: make(map[fdKey]*opened), seen: make(map[nameKey][]*inode), ever: make(map[string]bool)}
}

// current reports whether an actor sees the newest binding of a name. A mount may keep
// an old one while the file that it names exists; the server refuses the handle of one
// that does not. Mounts have lookupcache=pos: that a name is absent they do not keep.
func (m *model) current(actor int, name string) bool {
	k := m.kinds[actor]
	if k.Local || k.NoCache || k.Command {
		return true
	}
	now := m.names[name]
	for _, ino := range m.seen[nameKey{actor, name}] {
		if ino != now && ino != nil && (ino.links > 0 || m.hidden(ino) || m.op == Stat) {
			return false
		}
	}
	return true
}

// hidden reports whether a mount has given a file another name in place of removing it,
// which it does while the file is open there.
func (m *model) hidden(ino *inode) bool {
	for _, f := range m.files {
		if f.ino == ino && ino.removers[f.actor] {
			return true
		}
	}
	return false
}

// asked remembers that an actor knows the newest binding of a name.
func (m *model) asked(actor int, name string) {
	m.seen[nameKey{actor, name}] = []*inode{m.names[name]}
}

// bind gives a name to a file, or to none, by an actor's hand.
func (m *model) bind(actor int, name string, ino *inode) {
	if was := m.names[name]; was != nil {
		was.links--
		was.removers[actor] = true
	}
	if ino == nil {
		delete(m.names, name)
	} else {
		m.names[name] = ino
		m.ever[name] = true
	}
	for a := range m.kinds {
		k := nameKey{a, name}
		if len(m.seen[k]) > 0 && a != actor {
			m.seen[k] = append(m.seen[k], ino)
		}
	}
	m.asked(actor, name)
}

// settle moves an actor's oldest version of a file to what the server has.
func (m *model) settle(actor int, ino *inode) {
	to := ino.published
	if ino.dirty == actor {
		to = len(ino.versions) - 1
	}
	ino.floor[actor] = max(ino.floor[actor], to)
}

// fresh reports whether an actor can see nothing but the newest version of a file.
func (m *model) fresh(actor int, ino *inode) bool {
	k := m.kinds[actor]
	if k.Local || k.Command || k.NoCache && !(k.Unasked && slices.Contains(unasked, m.op)) {
		m.settle(actor, ino)
	}
	return ino.floor[actor] == len(ino.versions)-1
}

// change makes a new version. It is with the server at once, or when its writer has
// closed, synchronized, or unlocked the file.
func (m *model) change(actor int, ino *inode, atOnce bool, edit func(v *version)) {
	fresh := m.fresh(actor, ino)
	v := *ino.last()
	edit(&v)
	ino.versions = append(ino.versions, v)
	if fresh {
		ino.floor[actor] = len(ino.versions) - 1
	}
	if !atOnce && !m.kinds[actor].Local {
		ino.dirty = actor
	}
	if ino.dirty < 0 {
		ino.published = len(ino.versions) - 1
	}
}

// publish has all of a file be with the server, if it is this actor that has written.
func (m *model) publish(actor int, ino *inode) {
	if ino.dirty == actor {
		ino.dirty = -1
		ino.published = len(ino.versions) - 1
	}
}

// overwritten is data with other bytes from an offset on, and zeros before them if it was shorter.
func overwritten(data []byte, off int64, b []byte) []byte {
	n := max(int64(len(data)), off+int64(len(b)))
	out := make([]byte, n)
	copy(out, data)
	copy(out[off:], b)
	return out
}

// resized is data of another length.
func resized(data []byte, n int64) []byte {
	out := make([]byte, n)
	copy(out, data)
	return out
}

// may are the versions of a file that an actor may see.
func (m *model) may(actor int, ino *inode) []version {
	m.fresh(actor, ino)
	return ino.versions[ino.floor[actor]:]
}

// stale reports whether the server may have no such file any more for an actor: another
// one has removed it.
func (m *model) stale(f *opened) bool {
	if f.lost {
		return true
	}
	if f.ino.links > 0 || m.kinds[f.actor].Local {
		return false
	}
	return len(f.ino.removers) > 1 || !f.ino.removers[f.actor]
}

// openFile is the first open file of an actor with that file.
func (m *model) openFile(actor int, ino *inode) *opened {
	var found []*opened
	for _, f := range m.files {
		if f.actor == actor && f.ino == ino && !f.lost {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *opened) int { return a.fd - b.fd })
}

// listing are the names, sorted.
func (m *model) listing() []string {
	names := []string{}
	for name := range m.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
