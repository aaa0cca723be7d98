// Replies in read-ahead memory, which must not be reused until the kernel has copied them.

package fusefs_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// Concurrent sequential readers whose memory is soon reused each get their own file's data.
func TestReadersGetTheirOwnData(t *testing.T) {
	m := mountOver(t, options{AcMin: long, AcMax: long}, true)
	const files, size = 32, 4 << 20
	content := func(id int) []byte {
		b := make([]byte, 0, size)
		for at := range uint32(size / 8) {
			b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, uint32(id)), at)
		}
		return b
	}
	for id := range files {
		must.Succeed(t, os.WriteFile(m.there(fmt.Sprint(id)), content(id), 0o644))
	}
	var all sync.WaitGroup
	for id := range files {
		all.Go(func() {
			b, err := os.ReadFile(m.at(fmt.Sprint(id)))
			if err != nil || !bytes.Equal(b, content(id)) {
				t.Errorf("file %d: %d bytes of others, or %v", id, len(b), err)
			}
		})
	}
	all.Wait()
	if s := m.stats(); s.Data.ReadAheadHits == 0 {
		t.Error("nothing was read ahead")
	}
}
