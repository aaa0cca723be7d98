// The opcode table against a hand-written one, and permitted sequences.

package packet

import (
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

// table is IBA's table 38: name, header bytes, whether payload can follow.
var table = map[Opcode]struct {
	name    string
	headers int
	payload bool
}{
	0x00: {"RC SEND First", 12, true}, 0x01: {"RC SEND Middle", 12, true}, 0x02: {"RC SEND Last", 12, true},
	0x03: {"RC SEND Last with Immediate", 16, true}, 0x04: {"RC SEND Only", 12, true}, 0x05: {"RC SEND Only with Immediate", 16, true},
	0x06: {"RC RDMA WRITE First", 28, true}, 0x07: {"RC RDMA WRITE Middle", 12, true}, 0x08: {"RC RDMA WRITE Last", 12, true},
	0x09: {"RC RDMA WRITE Last with Immediate", 16, true}, 0x0a: {"RC RDMA WRITE Only", 28, true}, 0x0b: {"RC RDMA WRITE Only with Immediate", 32, true},
	0x0c: {"RC RDMA READ Request", 28, false}, 0x0d: {"RC RDMA READ response First", 16, true}, 0x0e: {"RC RDMA READ response Middle", 12, true},
	0x0f: {"RC RDMA READ response Last", 16, true}, 0x10: {"RC RDMA READ response Only", 16, true}, 0x11: {"RC Acknowledge", 16, false},
	0x12: {"RC ATOMIC Acknowledge", 24, false}, 0x13: {"RC CmpSwap", 40, false}, 0x14: {"RC FetchAdd", 40, false},
	0x16: {"RC SEND Last with Invalidate", 16, true}, 0x17: {"RC SEND Only with Invalidate", 16, true},
	0x20: {"UC SEND First", 12, true}, 0x21: {"UC SEND Middle", 12, true}, 0x22: {"UC SEND Last", 12, true},
	0x23: {"UC SEND Last with Immediate", 16, true}, 0x24: {"UC SEND Only", 12, true}, 0x25: {"UC SEND Only with Immediate", 16, true},
	0x26: {"UC RDMA WRITE First", 28, true}, 0x27: {"UC RDMA WRITE Middle", 12, true}, 0x28: {"UC RDMA WRITE Last", 12, true},
	0x29: {"UC RDMA WRITE Last with Immediate", 16, true}, 0x2a: {"UC RDMA WRITE Only", 28, true}, 0x2b: {"UC RDMA WRITE Only with Immediate", 32, true},
	0x64: {"UD SEND Only", 20, true}, 0x65: {"UD SEND Only with Immediate", 24, true},
	0x81: {"CNP", 12, true},
}

// Each opcode has the name, headers and payload of IBA table 38 [IBU-197 IBU-198 IBU-199 IBU-200
// IBU-201 IBU-202 IBU-203 IBU-204 IBU-205 IBU-206 IBU-207 IBU-208 IBU-209 IBU-210 IBU-211].
func TestTable(t *testing.T) {
	conformance.Proves(t, "IBU-197", "IBU-198", "IBU-199", "IBU-200", "IBU-201", "IBU-202", "IBU-203", "IBU-204", "IBU-205", "IBU-206", "IBU-207", "IBU-208", "IBU-209", "IBU-210", "IBU-211")
	services := map[int]Service{0: RC, 1: UC, 3: UD, 4: ServiceCNP}
	for i := range 256 {
		op := Opcode(i)
		want, known := table[op]
		if op.Known() != known || known != (op.Operation() != 0) || op.Payload() != want.payload {
			t.Errorf("%#02x: %v, known %v, payload %v", i, op, op.Known(), op.Payload())
		}
		if known && (op.String() != want.name || op.HeaderLen() != want.headers) {
			t.Errorf("%#02x: %v with %d bytes of headers, want %+v", i, op, op.HeaderLen(), want)
		}
		if s, ok := services[i>>5]; ok && op.Service() != s {
			t.Errorf("%#02x is of %v", i, op.Service())
		}
	}
	for text, want := range map[string]string{Opcode(0x15).String(): "opcode 0x15", Opcode(0xff).Service().String(): "service 7", RC.String(): "RC",
		UC.String(): "UC", UD.String(): "UD", ServiceCNP.String(): "CNP"} {
		if text != want {
			t.Errorf("%q, want %q", text, want)
		}
	}
	if MaxHeaderLen != slices.MaxFunc(slices.Collect(everyOpcode), func(a, b Opcode) int { return a.HeaderLen() - b.HeaderLen() }).HeaderLen() {
		t.Errorf("MaxHeaderLen is %d", MaxHeaderLen)
	}
}

func everyOpcode(yield func(Opcode) bool) {
	for i := range 256 {
		if !yield(Opcode(i)) {
			return
		}
	}
}

// Each opcode can be followed by the opcodes in a table like IBA's, and by no others. IBA 9.8.2.2.2
// [IBU-087 IBU-088 IBU-089].
func TestCanFollow(t *testing.T) {
	ucNew := []Opcode{0x20, 0x24, 0x25, 0x26, 0x2a, 0x2b}
	rcNew := []Opcode{0x00, 0x04, 0x05, 0x06, 0x0a, 0x0b, 0x0c, 0x13, 0x14, 0x17}
	rcAnswer := []Opcode{0x0d, 0x10, 0x11, 0x12}
	ud := []Opcode{0x64, 0x65}
	want := map[Opcode][]Opcode{}
	for _, k := range []struct {
		after, next []Opcode
	}{
		{[]Opcode{0x22, 0x23, 0x24, 0x25, 0x28, 0x29, 0x2a, 0x2b}, ucNew},
		{[]Opcode{0x20, 0x21}, []Opcode{0x21, 0x22, 0x23}},
		{[]Opcode{0x26, 0x27}, []Opcode{0x27, 0x28, 0x29}},
		{[]Opcode{0x02, 0x03, 0x04, 0x05, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x13, 0x14, 0x16, 0x17}, rcNew},
		{[]Opcode{0x00, 0x01}, []Opcode{0x01, 0x02, 0x03, 0x16}},
		{[]Opcode{0x06, 0x07}, []Opcode{0x07, 0x08, 0x09}},
		{[]Opcode{0x0f, 0x10, 0x11, 0x12}, rcAnswer},
		{[]Opcode{0x0d, 0x0e}, []Opcode{0x0e, 0x0f, 0x11}},
		{ud, ud},
	} {
		for _, prev := range k.after {
			want[prev] = k.next
		}
	}
	for prev := range everyOpcode {
		for op := range everyOpcode {
			if got := op.CanFollow(prev); got != slices.Contains(want[prev], op) {
				t.Errorf("%v after %v: %v", op, prev, got)
			}
		}
	}
	starts := slices.Concat(ucNew, rcNew, rcAnswer, ud)
	for op := range everyOpcode {
		if op.Starts() != slices.Contains(starts, op) {
			t.Errorf("%v starts a message: %v", op, op.Starts())
		}
	}
}
