// The model: files with all their versions, names, and the versions that each actor may still see.

package several

import (
	"slices"
)

// A Kind describes the promises to an actor.
type Kind struct {
	Name    string
	Local   bool // the served directory: each step sees the newest version
	NoCache bool // a mount with noac: like local, but its writes may wait for close
	Command bool // has only Cat, CopyIn, Rename, Unlink and Stat, each with a call to the server
	NoLocks bool // the actor's locks do not affect others, so the actor takes none
	// Absent: a mount that caches absent names for some time: names that it has looked up, and for
	// a second all names that it has not seen in the directory.
	Absent bool
	// Unasked: our mount. It lists a directory after lookups of several names there. So it may have
	// a name's old binding without a step that used the name. With noac, steps that are not among
	// asking may use its cached size and pages: FUSE sends no request for such steps, or the
	// server's reply has no attributes.
	Unasked bool
	// Kernel: Linux's client. It keeps a file's pages while the file is open for writing, except
	// under locks, and ACLs even under locks. It appends at its cached end. A create does not
	// truncate a file for which it has no cached name.
	Kernel bool
}

// asking are the steps for which a mount with noac gets a file's size and time from the server.
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
	published int // the newest version that the server has for certain
	dirty     int // the actor with written data that the server may lack, or -1
	maker     int // the actor that created the file and has not closed it since, or -1
	floor     map[int]int
	lock      string // the kind of lock
	holder    int    // the actor with the lock
	holderFd  int    // the open file with the lock
	// a flock lock ends some time after the last close, because FUSE's RELEASE comes then
	leaving bool

	// the actor that removed the last name
	remover int
	// the remover may have renamed the file to a hidden name, which is removed some time after the
	// last close
	hidden bool
	kept   bool // the remover has renamed the file

	// a mount lost the file before its written data reached the server: any content is permitted
	torn bool
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
	name   string // the name by which the actor opened it, or its new name since
	write  bool
	append bool
	lost   bool // the server no longer has the file
}

type fdKey struct{ actor, fd int }

type nameKey struct {
	actor int
	name  string
}

// A model is the state of a schedule's directory.
type model struct {
	kinds []Kind
	names map[string]*inode
	files map[fdKey]*opened
	// seen has the bindings of a name that an actor may have cached, nil for an absent name. It is
	// empty if the actor has neither looked up nor listed the name.
	seen map[nameKey][]*inode
	ever map[string]bool // names that ever existed
	op   Op              // the current step
	past bool            // the step bypasses the mount's cached size and pages
}

func newModel(kinds []Kind) *model {
	return &model{kinds: kinds, names: make(map[string]*inode), files: make(map[fdKey]*opened), seen: make(map[nameKey][]*inode), ever: make(map[string]bool)}
}

// current reports whether an actor sees the newest binding of a name. A mount may keep an old
// binding while its file exists; after that the server rejects the handle. Mounts have
// lookupcache=pos, so they do not cache absent names.
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

// absent reports whether an actor may wrongly believe that a name is absent.
func (m *model) absent(actor int, name string) bool {
	seen := m.seen[nameKey{actor, name}]
	return m.kinds[actor].Absent && m.names[name] != nil && (len(seen) == 0 || slices.Contains(seen, nil))
}

// removed records that an actor has removed a file's last name. While the file is open there, a
// mount renames it to a hidden name instead. Linux's client renames a file opened by this name,
// unless another client has since given the file this name. Our client renames a file unless its
// cache binds the name to another file; our client hides the file if that other file is open.
func (m *model) removed(actor int, name string, ino *inode) {
	ino.remover = actor
	if ino.maker >= 0 && ino.maker != actor && m.kinds[ino.maker].Unasked {
		for i := range ino.versions { // our mount may still delay the times that the mount has set
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

// noteLookup records that an actor has the newest binding of a name.
func (m *model) noteLookup(actor int, name string) {
	m.seen[nameKey{actor, name}] = []*inode{m.names[name]}
}

// bind changes a name's file, possibly to no file, for an actor.
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
	m.noteLookup(actor, name)
}

// settle advances an actor's oldest version of a file to the server's.
func (m *model) settle(actor int, ino *inode) {
	to := ino.published
	if ino.dirty == actor {
		to = len(ino.versions) - 1
	}
	ino.floor[actor] = max(ino.floor[actor], to)
}

// oldest returns the oldest version of a file that an actor may see.
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

// fresh reports whether an actor can see only the newest version of a file.
func (m *model) fresh(actor int, ino *inode) bool {
	return m.oldest(actor, ino) == len(ino.versions)-1
}

// keeps reports whether an actor keeps a file's pages although another actor has changed it.
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

// change makes a new version. The server has the version at once, or when its writer has closed,
// synced, or unlocked the file.
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

// publish records that the server has all of a file, if this actor was its writer.
func (m *model) publish(actor int, ino *inode) {
	if ino.dirty == actor {
		ino.dirty = -1
		ino.published = len(ino.versions) - 1
	}
}

// overwritten returns data with other bytes from an offset on. If data was shorter, zeros precede
// these bytes.
func overwritten(data []byte, off int64, b []byte) []byte {
	n := max(int64(len(data)), off+int64(len(b)))
	out := make([]byte, n)
	copy(out, data)
	copy(out[off:], b)
	return out
}

// resized returns data with another length.
func resized(data []byte, n int64) []byte {
	out := make([]byte, n)
	copy(out, data)
	return out
}

// permitted returns the versions of a file that an actor may see.
func (m *model) permitted(actor int, ino *inode) []version {
	return ino.versions[m.oldest(actor, ino):]
}

// stale reports whether the server may have lost the file for an actor: the file was removed, and
// the actor has not kept it.
func (m *model) stale(f *opened) bool {
	if f.lost {
		return true
	}
	if f.ino.links > 0 || m.kinds[f.actor].Local {
		return false
	}
	return f.ino.remover != f.actor || !f.ino.kept
}

// openFile returns an actor's first open file with that inode.
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

// listing returns the sorted names.
func (m *model) listing() []string {
	names := []string{}
	for name := range m.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
