// Whether the object storage has room: JuiceFS makes EIO of every error that it has with an object.

package juicefs

import (
	"context"
	"errors"
	"io"
	"regexp"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/object"
)

// A room is an object storage that remembers whether it has refused objects for want of room, or has not answered.
type room struct {
	object.ObjectStorage
	silence
	full atomic.Pointer[time.Time] // when it did last; nil: it has taken one since
}

// fullFor is how long a refusal counts: an upload is tried for some minutes before its writer is told.
const fullFor = 10 * time.Minute

// Put notes a refusal. One that it takes ends it.
func (r *room) Put(ctx context.Context, key string, in io.Reader, getters ...object.AttrGetter) error {
	began := time.Now()
	err := r.ObjectStorage.Put(ctx, key, in, getters...)
	switch silent := r.note(began, err); {
	case err == nil:
		r.full.Store(nil)
	case !silent && wantsRoom(err):
		r.full.Store(new(time.Now()))
	}
	return err
}

// short reports whether the storage has had no room when it was last asked for some.
func (r *room) short() bool {
	at := r.full.Load()
	return at != nil && time.Since(*at) < fullFor
}

// refusal is what S3 servers say: MinIO, Ceph, and others by the status of RFC 4918, which is not
// to be found within other numbers: ports, those of requests.
var refusal = regexp.MustCompile(`XMinioStorageFull|QuotaExceeded|InsufficientStorage|StorageFull|\b507\b`)

// wantsRoom reports whether an object was refused for want of room.
func wantsRoom(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	return refusal.MatchString(err.Error())
}
