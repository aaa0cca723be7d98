// What JuiceFS leaves open on SQL databases.

package juicefs

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// keeps reports whether the metadata service keeps a user, group or device number: on PostgreSQL JuiceFS has columns of 32 bits with a
// sign for them, and what does not fit would be an error of input and output.
func (f *FS) keeps(n uint32) bool { return n <= math.MaxInt32 || f.m.Name() != "postgres" }

// removals let one caller at a time remove a name: in two transactions at once on an SQL database both find the name, and both succeed. Those of
// two servers still do.
type removals [64]sync.Mutex

var removalSeed = maphash.MakeSeed()

// lock takes the lock of a name and returns what releases it.
func (r *removals) lock(dir nfsserver.Ref, name string) (unlock func()) {
	var h maphash.Hash
	h.SetSeed(removalSeed)
	h.Write(dir.Bytes())
	h.WriteString(name)
	m := &r[h.Sum64()%uint64(len(r))]
	m.Lock()
	return m.Unlock
}
