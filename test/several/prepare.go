// Adjusts the steps of a schedule to the model, or skips steps.

package several

import (
	"slices"
	"strings"
)

// prepare completes a step and reports whether the step can run: its needs are met, and its effect
// on the files follows from the promises. Earlier steps may have been cut away, so most steps
// depend only on the file that they name.
func (m *model) prepare(s *Step) bool {
	m.op, m.past = s.Op, false
	if s.Op == Restart {
		return true
	}
	k := m.kinds[s.Actor]
	switch s.Op {
	case Cat:
		return k.Command && m.names[s.Name] != nil
	case CopyIn:
		return k.Command
	case Open, Create:
		if k.Kernel && strings.Contains(s.Flags, "creat trunc") && slices.Contains(m.seen[nameKey{s.Actor, s.Name}], nil) {
			return false
		}
		return !k.Command && m.files[fdKey{s.Actor, s.Fd}] == nil && m.current(s.Actor, s.Name)
	case Unlink:
		return m.current(s.Actor, s.Name)
	case Rename:
		return s.Name != s.To && m.current(s.Actor, s.Name) && m.current(s.Actor, s.To)
	case Stat:
		return m.current(s.Actor, s.Name) && (!k.Command || m.names[s.Name] != nil)
	case Truncate:
		if k.Command || !m.current(s.Actor, s.Name) {
			return false
		}
		m.otherSize(m.names[s.Name], s)
		return true
	case ReadDir:
		return !k.Command
	}
	f := m.files[fdKey{s.Actor, s.Fd}]
	return f != nil && !f.lost && m.prepareFile(f, s)
}

// otherSize makes a truncation change the size, because file systems differ for an unchanged size.
func (m *model) otherSize(ino *inode, s *Step) {
	if ino != nil && int64(len(ino.last().data)) == s.Off {
		s.Off++
	}
}

// prepareFile prepares a step on an open file, as prepare does.
func (m *model) prepareFile(f *opened, s *Step) bool {
	size := int64(len(f.ino.last().data))
	m.past = f.append && m.kinds[s.Actor].Unasked && (s.Op == Read || s.Op == PRead)
	switch s.Op {
	case PWrite:
		// Linux's client may write a whole cached page, with bytes of an older version.
		return f.write && !f.append && (!m.kinds[s.Actor].Kernel || m.fresh(s.Actor, f.ino))
	case Append:
		return f.append && (!m.kinds[s.Actor].Kernel || m.fresh(s.Actor, f.ino))
	case SeekWrite:
		return f.write && !f.append && m.fresh(s.Actor, f.ino)
	case FTruncate:
		m.otherSize(f.ino, s)
		return f.write
	case Fallocate:
		return f.write
	case Store:
		// A store also writes the page's other bytes, as seen by the actor.
		return f.write && m.fresh(s.Actor, f.ino) && within(s, size)
	case Map:
		return within(s, size)
	case Read:
		s.N = 64
		for _, v := range m.permitted(s.Actor, f.ino) {
			s.N = max(s.N, int64(len(v.data))+64)
		}
		return true
	case CopyRange:
		to := m.files[fdKey{s.Actor, s.ToFd}]
		return to != nil && to.write && !to.append && !to.lost && m.fresh(s.Actor, f.ino) && within(s, size) &&
			(to.ino != f.ino || s.Off+s.N <= s.ToOff || s.ToOff+s.N <= s.Off)
	case Lock:
		return m.lockable(f, s)
	case Unlock:
		return f.ino.lock == s.Flags && f.ino.holder == s.Actor && f.ino.holderFd == s.Fd
	}
	return true
}

// within moves a range inside a file; negative offsets count from the file's end. It returns false
// for an empty file.
func within(s *Step, size int64) bool {
	if size == 0 {
		return false
	}
	s.Off = (s.Off%size + size) % size
	s.N = min(s.N, size-s.Off)
	return true
}

// lockable reports whether a lock's outcome is known. Some servers treat both kinds of locks as one
// kind and others do not, and a process has one fcntl lock for all its open files.
func (m *model) lockable(f *opened, s *Step) bool {
	k, ino := m.kinds[s.Actor], f.ino
	switch {
	case k.NoLocks || !f.write && !shared(s.Flags) || k.Local && byFlock(s.Flags):
		return false
	case ino.lock == "":
		return true
	}
	return ino.lock == s.Flags && !shared(s.Flags) && ino.holder != s.Actor && !m.kinds[ino.holder].NoLocks
}

// shared reports whether a lock is shared with other actors.
func shared(lock string) bool { return strings.HasSuffix(lock, "-shared") }

// byFlock reports whether a lock is flock(2)'s rather than fcntl(2)'s.
func byFlock(lock string) bool { return strings.HasPrefix(lock, "flock") }

// touched returns the files that a step concerns.
func (m *model) touched(s Step) []*inode {
	var all []*inode
	add := func(ino *inode) {
		if ino != nil {
			all = append(all, ino)
		}
	}
	if s.Name != "" {
		add(m.names[s.Name])
	}
	if s.To != "" {
		add(m.names[s.To])
	}
	for _, fd := range []int{s.Fd, s.ToFd} {
		if f := m.files[fdKey{s.Actor, fd}]; f != nil {
			add(f.ino)
		}
	}
	return all
}

// before returns the steps that must run first to make a step's outcome defined: they sync data
// that another actor has written and still caches.
func (m *model) before(s Step) []Step {
	var first []Step
	for _, ino := range m.touched(s) {
		if ino.dirty < 0 || ino.dirty == s.Actor {
			continue
		}
		if f := m.openFile(ino.dirty, ino); f != nil {
			first = append(first, Step{Actor: f.actor, Op: FSync, Fd: f.fd})
		}
	}
	return first
}
