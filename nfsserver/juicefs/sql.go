// Workarounds for JuiceFS on SQL databases.

package juicefs

import (
	"hash/maphash"
	"math"
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// keeps reports whether the metadata service can store a user, group or device number. On
// PostgreSQL JuiceFS has signed 32-bit columns, and a larger number would be an I/O error.
func (f *FS) keeps(n uint32) bool { return n <= math.MaxInt32 || f.m.Name() != "postgres" }

// removals serialize the removal of a name: in two concurrent transactions on an SQL database both
// would find the name, and both would succeed. Two servers' transactions still do.
type removals [64]sync.Mutex

var removalSeed = maphash.MakeSeed()

// lock locks a name and returns the function to unlock it.
func (r *removals) lock(dir nfsserver.Ref, name string) (unlock func()) {
	var h maphash.Hash
	h.SetSeed(removalSeed)
	h.Write(dir.Bytes())
	h.WriteString(name)
	m := &r[h.Sum64()%uint64(len(r))]
	m.Lock()
	return m.Unlock
}
