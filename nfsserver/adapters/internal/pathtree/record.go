// Log records, with big-endian numbers.
//
//	0  4  length n of the payload
//	4  4  CRC-32C of the payload
//	8  1  kind
//	9     identity, 16 bytes, and then by kind:
//	      node   directory's identity (16), name
//	      drop   nothing
//	      era    era (4)
//	      kept   mask (1), mode (4), uid (4), gid (4), atime (8), mtime (8), tree's mtime (8)

package pathtree

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	recordNode = 1 + iota
	recordDrop
	recordEra
	recordKept

	recordHead = 8
	idSize     = len(ID{})
	keptSize   = 1 + 3*4 + 3*8
	// maxRecord bounds a payload: a name of any file system is shorter.
	maxRecord = 1 << 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord appends a record with the payload that fill appends.
func appendRecord(b []byte, kind byte, id ID, fill func([]byte) []byte) []byte {
	at := len(b)
	b = append(b, make([]byte, recordHead)...)
	b = append(b, kind)
	b = append(b, id[:]...)
	b = fill(b)
	payload := b[at+recordHead:]
	binary.BigEndian.PutUint32(b[at:], uint32(len(payload)))
	binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(payload, castagnoli))
	return b
}

func appendNode(b []byte, n *node) []byte {
	return appendRecord(b, recordNode, n.id, func(b []byte) []byte {
		return append(append(b, n.parent.id[:]...), n.name...)
	})
}

func appendDrop(b []byte, n *node) []byte {
	return appendRecord(b, recordDrop, n.id, func(b []byte) []byte { return b })
}

func appendEra(b []byte, n *node) []byte {
	return appendRecord(b, recordEra, n.id, func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, n.era) })
}

func appendKept(b []byte, n *node) []byte {
	k := n.kept
	return appendRecord(b, recordKept, n.id, func(b []byte) []byte {
		b = append(b, k.Mask)
		for _, v := range []uint32{k.Mode, k.UID, k.GID} {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		for _, v := range []int64{k.Atime, k.Mtime, k.TreeMtime} {
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		}
		return b
	})
}

// cutRecord returns the payload of the first record and the rest. ok is false where no whole record
// stands.
func cutRecord(b []byte) (payload, rest []byte, ok bool) {
	if len(b) < recordHead {
		return nil, b, false
	}
	n := binary.BigEndian.Uint32(b)
	if n < uint32(1+idSize) || n > maxRecord || uint64(n) > uint64(len(b)-recordHead) {
		return nil, b, false
	}
	payload = b[recordHead : recordHead+n]
	if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(b[4:]) {
		return nil, b, false
	}
	return payload, b[recordHead+n:], true
}

// apply repeats the change of a record. Records about unknown objects change nothing.
func (t *Table) apply(payload []byte) {
	id, body := ID(payload[1:1+idSize]), payload[1+idSize:]
	n := t.nodes[id]
	switch payload[0] {
	case recordNode:
		if len(body) > idSize {
			t.applyNode(id, n, t.nodes[ID(body[:idSize])], string(body[idSize:]))
		}
	case recordDrop:
		if n != nil && n.parent != nil {
			n.detach()
			t.unmap(n)
		}
	case recordEra:
		if n != nil && len(body) == 4 {
			n.era = binary.BigEndian.Uint32(body)
		}
	case recordKept:
		if n != nil && len(body) == keptSize {
			n.kept = parseKept(body)
		}
	}
}

// applyNode makes n, or an unknown object, name in d.
func (t *Table) applyNode(id ID, n, d *node, name string) {
	if d == nil || n != nil && (n.parent == nil || d.inside(n)) {
		return
	}
	if old := d.names[name]; old != nil && old != n {
		if n != nil && n.inside(old) {
			return
		}
		old.detach()
		t.unmap(old)
	}
	if n == nil {
		n = &node{id: id}
		t.nodes[id] = n
	} else {
		n.detach()
	}
	n.attach(d, name)
}

func parseKept(b []byte) (k Kept) {
	k.Mask = b[0]
	for i, v := range []*uint32{&k.Mode, &k.UID, &k.GID} {
		*v = binary.BigEndian.Uint32(b[1+4*i:])
	}
	for i, v := range []*int64{&k.Atime, &k.Mtime, &k.TreeMtime} {
		*v = int64(binary.BigEndian.Uint64(b[13+8*i:]))
	}
	return k
}
