// The versions of a file that an actor may see.

package several

import (
	"fmt"
	"slices"
)

// see compares the outcome of a step that reads a file.
func (m *model) see(s Step, ino *inode, o Outcome) string {
	if ino.torn {
		return ""
	}
	may := slices.Clone(m.permitted(s.Actor, ino))
	ok := false
	switch s.Op {
	case Stat, FStat:
		ok = m.attributes(s.Actor, ino, may, o)
	case SeekEnd:
		ok = sizeOf(may, o.N)
	case FGetACL:
		if m.kinds[s.Actor].Kernel {
			may = ino.versions
		}
		for _, v := range may {
			ok = ok || v.acl == o.ACL
		}
	default:
		off := s.Off
		if s.Op == Read {
			off = 0
		}
		if s.Op == Map && mapped(s, may, o) {
			return ""
		}
		ok = o.Err == "" && content(may, off, s.N, o.Data)
	}
	if ok {
		return ""
	}
	return m.describe(s, ino)
}

// describe formats a step's permitted outcomes.
func (m *model) describe(s Step, ino *inode) string {
	may, text := m.permitted(s.Actor, ino), ""
	for i := range may {
		if i > 0 {
			text += ", or of an older version "
		}
		v := may[len(may)-1-i]
		switch s.Op {
		case Stat, FStat:
			text += Outcome{N: int64(len(v.data)), Mode: v.mode, Time: v.time}.String()
		case SeekEnd:
			text += fmt.Sprint(len(v.data))
		case FGetACL:
			text += fmt.Sprint("ACL ", v.acl)
		case Read:
			text += runs(v.data)
		default:
			from := min(s.Off, int64(len(v.data)))
			text += runs(v.data[from:min(from+s.N, int64(len(v.data)))])
		}
	}
	return text
}

// sizeOf reports whether a size lies between those of versions. If a write takes several calls,
// another client may have seen a part of the write.
func sizeOf(may []version, n int64) bool {
	least, most := int64(len(may[0].data)), int64(0)
	for _, v := range may {
		least, most = min(least, int64(len(v.data))), max(most, int64(len(v.data)))
	}
	return least <= n && n <= most
}

// attributes compares attributes. Attributes that were shown advance the actor's floor: the actor
// must not see a version older than the first version with them.
func (m *model) attributes(actor int, ino *inode, may []version, o Outcome) bool {
	if !sizeOf(may, o.N) {
		return false
	}
	mode, time := false, ino.dirty == actor // the server has not set the time yet
	for i, v := range may {
		mode = mode || v.mode == o.Mode
		same := v.time == o.Time || v.time == anyTime
		time = time || same
		if same && v.mode == o.Mode && int64(len(v.data)) == o.N {
			if m.keeps(actor, ino) {
				return true
			}
			ino.floor[actor] = max(ino.floor[actor], len(ino.versions)-len(may)+i)
			return true
		}
	}
	return mode && time && (len(may) > 1 || ino.dirty == actor)
}

// mapped compares a mapping's bytes with an older, shorter version: zeros follow the version's end
// up to the end of the page, then faults.
func mapped(s Step, may []version, o Outcome) bool {
	padded := false
	for i, v := range may {
		if int64(len(v.data)) < s.Off+s.N {
			padded = true
			may[i].data = resized(v.data, s.Off+s.N)
		}
	}
	return padded && (o.Err == "SIGBUS" || content(may, s.Off, s.N, o.Data))
}

// content compares bytes: each byte must be from some version, and the end must be some version's.
func content(may []version, off, n int64, data []byte) bool {
	for i, b := range data {
		at, ok := off+int64(i), false
		for _, v := range may {
			ok = ok || at < int64(len(v.data)) && v.data[at] == b
		}
		if !ok {
			return false
		}
	}
	if int64(len(data)) == n {
		return true
	}
	for _, v := range may {
		if int64(len(v.data)) <= off+int64(len(data)) {
			return true
		}
	}
	return false
}
