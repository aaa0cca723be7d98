// Hints: what is written beside an identity derived from a path, so that the path can be found
// again in the tree itself.

package pathtree

// maxHints bounds the hints in bytes.
const maxHints = 31

// Hints returns up to 32 bytes that depend only on an object's path: its depth, and then some bytes
// from each identity on the way.
func (t *Table) Hints(id ID) (hints []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if n == nil {
		return nil, ErrUnknown
	}
	depth := 0
	for m := n; m.parent != nil; m = m.parent {
		depth++
	}
	width := hintWidth(depth)
	hints = make([]byte, 1+min(depth*width, maxHints))
	hints[0] = byte(min(depth, 255))
	for m := n; m.parent != nil; m = m.parent {
		depth--
		if at := 1 + depth*width; at < len(hints) {
			copy(hints[at:at+width], m.id[:])
		}
	}
	return hints, nil
}

// hintWidth returns the bytes in each hint, for an object at a depth.
func hintWidth(depth int) int { return max(1, min(4, maxHints/max(depth, 1))) }

// Rediscover finds the object with a derived identity that is no longer known, or was made known by
// an earlier process. list returns the names in a directory; where it fails there are none.
func (t *Table) Rediscover(id ID, hints []byte, list func(path string) []string) error {
	if !t.fixed || len(hints) == 0 || hints[0] == 0 {
		return ErrUnknown
	}
	s := search{t: t, id: id, hints: hints[1:], depth: int(hints[0]), width: hintWidth(int(hints[0])), list: list}
	names := s.below(t.root.id, "", 0)
	if names == nil {
		return ErrUnknown
	}
	dir := t.root.id
	for _, name := range names {
		next, err := t.Find(dir, name)
		if err != nil {
			return err
		}
		dir = next
	}
	return nil
}

// A search looks for an identity from the root down.
type search struct {
	t            *Table
	id           ID
	hints        []byte
	depth, width int
	list         func(path string) []string
}

// below returns the names that lead from a directory to the object, or nil.
func (s *search) below(dir ID, path string, depth int) []string {
	for _, name := range s.list(path) {
		id := s.t.derive(dir, name, 0)
		if !s.fits(id, depth) {
			continue
		}
		if id == s.id {
			return []string{name}
		}
		if depth+1 == s.depth && s.depth < 255 {
			continue
		}
		sub := name
		if path != "" {
			sub = path + "/" + name
		}
		if names := s.below(id, sub, depth+1); names != nil {
			return append([]string{name}, names...)
		}
	}
	return nil
}

// fits reports whether the hint at a depth allows an identity. Deeper than the hints all fit.
func (s *search) fits(id ID, depth int) bool {
	at := depth * s.width
	if at+s.width > len(s.hints) {
		return true
	}
	return string(s.hints[at:at+s.width]) == string(id[:s.width])
}
