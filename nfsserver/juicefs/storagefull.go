// Detection of a full object storage: JuiceFS turns every object error into EIO.

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

// A watchedStorage is an object storage that records whether it refused objects for lack of space,
// or did not answer.
type watchedStorage struct {
	object.ObjectStorage
	outage
	full atomic.Pointer[time.Time] // last refusal; nil: it has stored an object since
}

// fullFor is how long a refusal counts: JuiceFS retries an upload for some minutes before its
// writer gets the error.
const fullFor = 10 * time.Minute

// Put records a refusal. A stored object clears it.
func (r *watchedStorage) Put(ctx context.Context, key string, in io.Reader, getters ...object.AttrGetter) error {
	began := time.Now()
	err := r.ObjectStorage.Put(ctx, key, in, getters...)
	switch silent := r.note(began, err); {
	case err == nil:
		r.full.Store(nil)
	case !silent && wantsSpace(err):
		r.full.Store(new(time.Now()))
	}
	return err
}

// short reports whether the last request for space was refused.
func (r *watchedStorage) short() bool {
	at := r.full.Load()
	return at != nil && time.Since(*at) < fullFor
}

// refusal matches errors of S3 servers: MinIO and Ceph by code, others by the status in RFC 4918.
// That number must not match inside others, such as ports and request ids.
var refusal = regexp.MustCompile(`XMinioStorageFull|QuotaExceeded|InsufficientStorage|StorageFull|\b507\b`)

// wantsSpace reports whether an object was refused for lack of space.
func wantsSpace(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return true
	}
	return refusal.MatchString(err.Error())
}
