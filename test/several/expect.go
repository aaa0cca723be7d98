// Compares each step's outcome with the model's permitted outcomes, and applies the outcome to the
// model.

package several

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// apply compares a step's outcome and changes the model. It returns the wanted outcome, or "" for a
// match.
func (m *model) apply(s Step, o Outcome) (want string) {
	switch s.Op {
	case Restart:
		return fails(o, "")
	case Open, Create:
		return m.open(s, o)
	case Unlink, Rename, Truncate, Stat, ReadDir, Cat, CopyIn:
		return m.name(s, o)
	}
	f := m.files[fdKey{s.Actor, s.Fd}]
	if m.stale(f) && (o.Err == "ESTALE" || o.Err == "EIO" || o.Err == "SIGBUS") {
		m.lose(f)
		if s.Op == Close {
			m.closed(f)
		}
		return ""
	}
	if to := m.files[fdKey{s.Actor, s.ToFd}]; to != nil && m.stale(to) && o.Err != "" {
		m.lose(to)
		return ""
	}
	if m.stale(f) && s.Op == PRead {
		s.N = min(s.N, int64(len(o.Data))) // the listing's error came after the first page
	}
	unsupported := o.Err == "EOPNOTSUPP" || o.Err == "ENOTSUP"
	if unsupported && !m.kinds[s.Actor].Local && (s.Op == Fallocate || s.Op == FSetACL || s.Op == FGetACL) {
		return ""
	}
	if s.Op == Lock && f.ino.lock != "" {
		return fails(o, "EAGAIN")
	}
	if s.Op == Lock && f.ino.leaving && o.Err == "EAGAIN" {
		return ""
	}
	if s.Op == Map && o.Err == "SIGBUS" {
		return m.see(s, f.ino, o)
	}
	if want := fails(o, ""); want != "" {
		return want
	}
	switch s.Op {
	case Read, PRead, Map, SendFile, Splice, SeekEnd, FStat, FGetACL:
		if m.stale(f) && f.ino.dirty == f.actor {
			return "" // the mount may have lost the data; the next write or close gets the error
		}
		return m.see(s, f.ino, o)
	}
	return m.changeFile(s, f, o)
}

// lose marks all of an actor's open files of an inode as lost. A mount without an error on the
// other files trusts its cache. The mount may lose unwritten data too; then the actor gets an
// error.
func (m *model) lose(f *opened) {
	if f.ino.dirty == f.actor {
		f.ino.dirty, f.ino.torn = -1, true
	}
	for _, other := range m.files {
		if other.actor == f.actor && other.ino == f.ino {
			other.lost = true
		}
	}
}

// fails compares the error of an outcome.
func fails(o Outcome, want string) string {
	if o.Err == want {
		return ""
	}
	if want == "" {
		return "success"
	}
	return want
}

// open applies a step that opens a file, as apply does.
func (m *model) open(s Step, o Outcome) string {
	ino := m.names[s.Name]
	flags := " " + s.Flags + " "
	switch {
	case ino != nil && s.Op == Create:
		m.noteLookup(s.Actor, s.Name)
		return fails(o, "EEXIST")
	case ino == nil && s.Op == Open && !strings.Contains(flags, " creat "):
		m.noteLookup(s.Actor, s.Name)
		return fails(o, "ENOENT")
	}
	if o.Err == "ENOENT" && m.absent(s.Actor, s.Name) && !strings.Contains(flags, " creat ") {
		return ""
	}
	if o.Err != "" {
		return "success"
	}
	if ino == nil {
		ino = newInode()
		ino.maker = s.Actor
		m.bind(s.Actor, s.Name, ino)
	} else if strings.Contains(flags, " trunc ") {
		m.change(s.Actor, ino, true, func(v *version) { v.data, v.time = nil, truncated(v, 0) })
	}
	m.noteLookup(s.Actor, s.Name)
	f := &opened{actor: s.Actor, fd: s.Fd, ino: ino, name: s.Name, append: strings.Contains(flags, " append ")}
	f.write = s.Op == Create || strings.Contains(flags, " w ")
	if !m.keeps(s.Actor, ino) {
		m.settle(s.Actor, ino)
	}
	m.files[fdKey{s.Actor, s.Fd}] = f
	return ""
}

// anyTime stands for a time that differs between file systems.
const anyTime = -1

// truncated returns the time after a truncation. File systems differ if the size is unchanged.
func truncated(v *version, size int64) int64 {
	if int64(len(v.data)) == size {
		return anyTime
	}
	return 0
}

// name applies a step on a name, as apply does.
func (m *model) name(s Step, o Outcome) string {
	ino := m.names[s.Name]
	if s.Op == ReadDir {
		return m.listed(s, o)
	}
	if ino == nil && s.Op != CopyIn {
		m.noteLookup(s.Actor, s.Name)
		return fails(o, "ENOENT")
	}
	if o.Err == "ENOENT" && m.absent(s.Actor, s.Name) {
		return ""
	}
	if want := fails(o, ""); want != "" {
		return want
	}
	switch s.Op {
	case Unlink:
		m.bind(s.Actor, s.Name, nil)
	case Rename:
		ino.links++ // bind removes a link with the old name
		m.bind(s.Actor, s.To, ino)
		m.bind(s.Actor, s.Name, nil)
		for _, f := range m.files {
			if f.actor == s.Actor && f.ino == ino {
				f.name = s.To
			}
		}
	case Truncate:
		m.change(s.Actor, ino, true, func(v *version) { v.data, v.time = resized(v.data, s.Off), 0 })
		m.noteLookup(s.Actor, s.Name)
	case Stat:
		m.noteLookup(s.Actor, s.Name)
		return m.see(s, ino, o)
	case Cat:
		if want := ino.last().data; !bytes.Equal(o.Data, want) {
			return runs(want)
		}
	case CopyIn:
		if ino == nil {
			ino = newInode()
			m.bind(s.Actor, s.Name, ino)
		}
		m.change(s.Actor, ino, true, func(v *version) { v.data, v.time = bytes.Repeat([]byte{byte(s.Val)}, int(s.N)), 0 })
	}
	return ""
}

// listed compares a listing. A mount may have cached the listing, so names may be missing or gone.
func (m *model) listed(s Step, o Outcome) string {
	want := m.listing()
	k := m.kinds[s.Actor]
	if o.Err == "" && (k.Local || k.NoCache) && slices.Equal(o.Names, want) {
		return ""
	}
	if o.Err == "" && !k.Local && !k.NoCache {
		for _, name := range o.Names {
			if !m.ever[name] {
				return fmt.Sprint("names of ", want)
			}
		}
		for name := range m.ever { // a listing answers for all names, also for absent names
			key := nameKey{s.Actor, name}
			m.seen[key] = append(m.seen[key], m.names[name])
			if k.Absent && !slices.Contains(o.Names, name) {
				m.seen[key] = append(m.seen[key], nil)
			}
		}
		return ""
	}
	return fmt.Sprint(want)
}

// changeFile applies a step on an open file.
func (m *model) changeFile(s Step, f *opened, o Outcome) string {
	ino, n := f.ino, int64(0)
	switch s.Op {
	case PWrite, Append, Store, CopyRange:
		n = s.N
	case SeekWrite:
		n = int64(len(ino.last().data))
	}
	if o.N != n && !ino.torn {
		return fmt.Sprint(n)
	}
	written := func(at int64) func(v *version) {
		data := bytes.Repeat([]byte{byte(s.Val)}, int(s.N))
		return func(v *version) { v.data, v.time = overwritten(v.data, at, data), 0 }
	}
	switch s.Op {
	case PWrite:
		m.change(s.Actor, ino, false, written(s.Off))
	case Append, SeekWrite:
		m.change(s.Actor, ino, false, written(int64(len(ino.last().data))))
	case Store:
		m.change(s.Actor, ino, true, written(s.Off))
	case CopyRange:
		to, data := m.files[fdKey{s.Actor, s.ToFd}].ino, ino.last().data[s.Off:s.Off+s.N]
		m.change(s.Actor, to, false, func(v *version) { v.data, v.time = overwritten(v.data, s.ToOff, data), 0 })
	case FTruncate:
		m.change(s.Actor, ino, true, func(v *version) { v.data, v.time = resized(v.data, s.Off), 0 })
	case Fallocate:
		m.change(s.Actor, ino, true, func(v *version) {
			v.data, v.time = resized(v.data, max(int64(len(v.data)), s.Off+s.N)), anyTime
		})
	case FChmod:
		m.change(s.Actor, ino, true, func(v *version) { v.mode = uint32(s.Val) })
	case FTimes:
		// Our mount delays the times of a file that it is creating, as it delays the data.
		atOnce := ino.maker != s.Actor || !m.kinds[s.Actor].Unasked
		set := int64(s.Val)
		if !atOnce && ino.links == 0 && ino.remover != s.Actor {
			set = anyTime // the server may no longer have the file
		}
		m.change(s.Actor, ino, atOnce, func(v *version) { v.time = set })
	case FSetACL:
		m.change(s.Actor, ino, true, func(v *version) { v.mode, v.acl = 0o644, s.Val })
	case FSync:
		m.publish(s.Actor, ino)
	case Lock:
		ino.lock, ino.holder, ino.holderFd, ino.leaving = s.Flags, s.Actor, s.Fd, false
		m.settle(s.Actor, ino)
	case Unlock:
		m.publish(s.Actor, ino)
		ino.lock = ""
	case Close:
		m.closed(f)
	}
	return ""
}

// closed applies close(2). fcntl locks end with any open file of the process.
func (m *model) closed(f *opened) {
	delete(m.files, fdKey{f.actor, f.fd})
	m.publish(f.actor, f.ino)
	if f.ino.maker == f.actor {
		f.ino.maker = -1
	}
	if f.ino.holder == f.actor && (!byFlock(f.ino.lock) || f.ino.holderFd == f.fd) {
		f.ino.leaving = byFlock(f.ino.lock) && m.kinds[f.actor].Unasked
		f.ino.lock = ""
	}
}
