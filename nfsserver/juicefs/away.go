// Whether the object storage answers: JuiceFS makes EIO of every error that it has with an object.

package juicefs

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/juicedata/juicefs/pkg/object"
)

// An object storage that does not answer has refused nothing, and clients are to ask again, as where the metadata service is away
// (failed): an error would end their programs, or have them give up what they had to write, for an outage that passes.

// A silence is when a request last ended without an answer.
type silence struct {
	log *slog.Logger // set once; nil: slog.Default()

	at  atomic.Pointer[time.Time] // nil: never
	tls atomic.Pointer[time.Time] // when the log last had a line on TLS; nil: never
}

const (
	// tlsEvery is between two lines of the log on TLS.
	tlsEvery = 10 * time.Minute
	// awayFor is how long that counts: longer than from one try of a request to the end of the next.
	awayFor = 3 * time.Minute
	// givenUp is after what time JuiceFS ends a request as it has not been answered, and not as nobody wants it any more. (It waits a minute.)
	givenUp = 30 * time.Second
)

// away reports whether the storage has left a request without an answer lately.
func (s *silence) away() bool {
	at := s.at.Load()
	return at != nil && time.Since(*at) < awayFor
}

// note takes the error of a request, and reports whether that was left without an answer.
func (s *silence) note(began time.Time, err error) bool {
	silent := unanswered(err, time.Since(began))
	switch {
	case silent:
		s.at.Store(new(time.Now()))
	case err != nil && noTLS(err):
		last := s.tls.Load()
		if (last == nil || time.Since(*last) >= tlsEvery) && s.tls.CompareAndSwap(last, new(time.Now())) {
			cmp.Or(s.log, slog.Default()).Error(fmt.Sprintf("juicefs: no TLS with the object storage, so that clients get NFS3ERR_IO: %v", err))
		}
	}
	return silent
}

// noTLS reports whether err is that one of both sides does not accept what the other one says of itself: a certificate that has expired, or is of
// another name or authority. Somebody is there, and says the same for as long as nobody changes that.
func noTLS(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError // it does not speak TLS
		alert       *net.OpError
	)
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) && alert.Op == remoteAlert
}

// remoteAlert is the operation that crypto/tls names in the error for an alert of the peer.
const remoteAlert = "remote error"

// unanswered reports whether err, of a request that took some time, is of the way to the storage: refusals of its own are none of these types, but
// those of TLS.
func unanswered(err error, took time.Duration) bool {
	var (
		dial *net.OpError // no net.Error, which every syscall.Errno is
		name *net.DNSError
		send *url.Error
	)
	switch {
	case err == nil, noTLS(err):
		return false
	case errors.Is(err, context.Canceled):
		return took >= givenUp
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	}
	return errors.As(err, &dial) || errors.As(err, &name) || errors.As(err, &send)
}

// Get notes a request that is not answered, or not to its end.
func (r *room) Get(ctx context.Context, key string, off, limit int64, getters ...object.AttrGetter) (io.ReadCloser, error) {
	began := time.Now()
	in, err := r.ObjectStorage.Get(ctx, key, off, limit, getters...)
	if err != nil {
		r.note(began, err)
		return nil, err
	}
	return &content{in, &r.silence, began}, nil
}

// A content is that of an object.
type content struct {
	io.ReadCloser
	silence *silence
	began   time.Time
}

// Read passes on an end, which is where the object ends.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.silence.note(c.began, err)
	}
	return n, err
}
