// The model: files with all their versions, names, and the versions that each actor may still see.

package several

import (
	"slices"
)

// A Kind has the promises to an actor.
type Kind struct {
	Name    string
	Local   bool // the served directory itself: each step is of the newest version
	NoCache bool // a mount with noac: as a local one, but its writes may wait for close
	Command bool // it has only Cat, CopyIn, Rename, Unlink and Stat, each with a call to the server
	NoLocks bool // its locks mean nothing to others, so it takes none
	// Absent: a mount that caches for some time that names are absent: those that it has looked up,
	// and for a second all that it has not seen in the directory.
	Absent bool
	// Unasked: our mount. It lists a directory in which it has looked up several names, and so may have
	// a name from before it was given to another file, though no step has used it. With noac, steps that
	// are not among asking may use its cached size and pages. FUSE sends no request for them, or the
	// server's reply has no attributes.
	Unasked bool
	// Kernel: Linux's client. It keeps its pages while it has the file open for writing, except
	// under locks, and ACLs even under locks. It appends at its cached end. A create does not empty
	// a file of which it has no cached name.
	Kernel bool
}

// asking are the steps with which a mount with noac gets the size and the time of a file from the
// server.
var asking = []Op{Open, Read, PRead, FStat, Stat, Append}

// A version is the state of a file between two changes.
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
	dirty     int // the actor with written data that is not, or -1
	maker     int // the actor that has made it and closed no open file of it since, or -1
	floor     map[int]int
	lock      string // how it is locked
	holder    int    // the actor and
	holderFd  int    // the open file that have locked it
	leaving   bool   // a lock of flock goes some time after the last close, since FUSE's RELEASE comes then

	// of the removal of its last name
	remover int
	hidden  bool // the remover may have given it another name, which goes some time after the last close
	kept    bool // it has

	torn bool // a mount lost the file before its written data was with the server: any content is right
}

func newInode() *inode {
	return &inode{versions: []version{{mode: 0o644}}, links: 1, dirty: -1, maker: -1, floor: make(map[int]int)}
}

func (i *inode) last() *version { return &i.versions[len(i.versions)-1] }

// An opened is an open file.
type opened struct {
	actor  int
	fd     int
	ino    *inode
	name   string // by which the actor opened it, or that it gave to that name since
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
	// seen are the bindings of a name that an actor may have kept, nil for none: empty if it has
	// neither looked it up nor listed it.
	seen map[nameKey][]*inode
	ever map[string]bool // names that there were
	op   Op              // of the step under way
	past bool            // which goes past the size and the pages that the mount has, and leaves them as they are
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
		if ino != now && ino != nil && (ino.links > 0 || ino.hidden || m.op == Stat) {
			return false
		}
	}
	return true
}

// absent reports whether an actor may keep that nothing has a name, which is wrong.
func (m *model) absent(actor int, name string) bool {
	seen := m.seen[nameKey{actor, name}]
	return m.kinds[actor].Absent && m.names[name] != nil && (len(seen) == 0 || slices.Contains(seen, nil))
}

// removed records that an actor has removed the last name of a file. While the file is open there,
// a mount gives it a hidden name instead. Linux's client does that if it opened the file by this
// name, and not if another client gave it the name since. Our client does so unless it takes the
// name for another file's. Such a mount hides the file if that other one is open.
func (m *model) removed(actor int, name string, ino *inode) {
	ino.remover = actor
	if ino.maker >= 0 && ino.maker != actor && m.kinds[ino.maker].Unasked {
		for i := range ino.versions { // our mount may still delay the times that it has set
			ino.versions[i].time = anyTime
		}
	}
	k, seen := m.kinds[actor], m.seen[nameKey{actor, name}]
	knows := k.Unasked
	for _, was := range seen {
		knows = knows && (k.NoCache || was == ino || was == nil)
	}
	for _, f := range m.files {
		if f.actor != actor || k.Local {
			continue
		}
		ino.hidden = ino.hidden || f.ino == ino || slices.Contains(seen, f.ino)
		ino.kept = ino.kept || f.ino == ino && (knows || f.name == name)
	}
}

// asked records that an actor has the newest binding of a name.
func (m *model) asked(actor int, name string) {
	m.seen[nameKey{actor, name}] = []*inode{m.names[name]}
}

// bind gives a name to a file, or to none, by an actor's hand.
func (m *model) bind(actor int, name string, ino *inode) {
	was := m.names[name]
	if was != nil {
		if was.links--; was.links == 0 {
			m.removed(actor, name, was)
		}
	}
	if ino == nil {
		delete(m.names, name)
	} else {
		m.names[name] = ino
		m.ever[name] = true
	}
	for a, kind := range m.kinds {
		k := nameKey{a, name}
		if kind.Unasked && len(m.seen[k]) == 0 {
			m.seen[k] = []*inode{was}
		}
		if len(m.seen[k]) > 0 && a != actor {
			m.seen[k] = append(m.seen[k], ino)
		}
	}
	m.asked(actor, name)
}

// settle moves an actor's oldest version of a file to the server's.
func (m *model) settle(actor int, ino *inode) {
	to := ino.published
	if ino.dirty == actor {
		to = len(ino.versions) - 1
	}
	ino.floor[actor] = max(ino.floor[actor], to)
}

// oldest is the oldest version of a file that an actor may see.
func (m *model) oldest(actor int, ino *inode) int {
	k, was := m.kinds[actor], ino.floor[actor]
	if k.Local || k.Command || k.NoCache && (!k.Unasked || slices.Contains(asking, m.op)) && !m.keeps(actor, ino) {
		m.settle(actor, ino)
	}
	now := ino.floor[actor]
	if m.past {
		ino.floor[actor] = was
	}
	return now
}

// fresh reports whether an actor can see nothing but the newest version of a file.
func (m *model) fresh(actor int, ino *inode) bool {
	return m.oldest(actor, ino) == len(ino.versions)-1
}

// keeps reports whether an actor keeps the pages of a file though another one has changed it.
func (m *model) keeps(actor int, ino *inode) bool {
	if !m.kinds[actor].Kernel {
		return false
	}
	for _, f := range m.files {
		if f.actor == actor && f.ino == ino && f.write {
			return true
		}
	}
	return false
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
	return ino.versions[m.oldest(actor, ino):]
}

// stale reports whether the server may have lost the file for an actor: it was removed, and the
// actor has not kept it.
func (m *model) stale(f *opened) bool {
	if f.lost {
		return true
	}
	if f.ino.links > 0 || m.kinds[f.actor].Local {
		return false
	}
	return f.ino.remover != f.actor || !f.ino.kept
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
