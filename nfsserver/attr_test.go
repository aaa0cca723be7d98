// Names of object types.

package nfsserver

import "testing"

func TestUnknownFileTypesKeepTheirNumber(t *testing.T) {
	for typ, want := range map[FileType]string{TypeReg: "file", TypeFIFO: "FIFO", 0: "file type 0", TypeFIFO + 1: "file type 8", 1 << 31: "file type 2147483648"} {
		if got := typ.String(); got != want {
			t.Errorf("%d: %q, want %q", uint32(typ), got, want)
		}
	}
}
