// Detection of an unresponsive object storage: JuiceFS turns every object error into EIO.

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

// An object storage that does not answer has refused nothing. So clients must retry, as with an
// unreachable metadata service (failed). An error would end their programs, or make them drop
// unwritten data, because of a temporary outage.

// An outage records the end of the last unanswered request.
type outage struct {
	log *slog.Logger // set once; nil: slog.Default()

	at  atomic.Pointer[time.Time] // nil: never
	tls atomic.Pointer[time.Time] // time of the last log line on TLS; nil: never
}

const (
	// tlsEvery is the interval between log lines on TLS.
	tlsEvery = 10 * time.Minute
	// awayFor is how long an unanswered request counts: longer than from one attempt of a request
	// to the end of the next.
	awayFor = 3 * time.Minute
	// givenUp separates two causes of a request canceled by JuiceFS. After a longer time it was
	// unanswered (JuiceFS waits a minute); after a shorter time its result was no longer needed.
	givenUp = 30 * time.Second
)

// away reports whether a request was left unanswered within awayFor.
func (s *outage) away() bool {
	at := s.at.Load()
	return at != nil && time.Since(*at) < awayFor
}

// note takes a request's error, and reports whether the request was unanswered.
func (s *outage) note(began time.Time, err error) bool {
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

// noTLS reports whether the TLS handshake failed because one side rejects the other: an expired
// certificate, another name or another authority. The peer answers, and the error lasts until it is
// reconfigured.
func noTLS(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError // the peer does not speak TLS
		alert       *net.OpError
	)
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) && alert.Op == remoteAlert
}

// remoteAlert is the operation in crypto/tls's error for an alert from the peer.
const remoteAlert = "remote error"

// unanswered reports whether err, from a request that took some time, came from the path to the
// storage. Refusals by the storage have none of these types, except TLS failures.
func unanswered(err error, took time.Duration) bool {
	var (
		dial *net.OpError // not net.Error, which every syscall.Errno implements
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

// Get notes an unanswered or interrupted request.
func (r *watchedStorage) Get(ctx context.Context, key string, off, limit int64, getters ...object.AttrGetter) (io.ReadCloser, error) {
	began := time.Now()
	in, err := r.ObjectStorage.Get(ctx, key, off, limit, getters...)
	if err != nil {
		r.note(began, err)
		return nil, err
	}
	return &content{in, &r.outage, began}, nil
}

// A content is an object's content while it is read.
type content struct {
	io.ReadCloser
	outage *outage
	began  time.Time
}

// Read passes on io.EOF, the end of the object.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.outage.note(c.began, err)
	}
	return n, err
}
