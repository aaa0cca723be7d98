// KDCs that answer with anything.

package krb5

import (
	"context"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// kdcOf returns a configuration with one KDC over TCP, and a ticket-granting ticket.
func kdcOf(t *testing.T, answer func(conn net.Conn)) (*Config, ticket) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(conn)
			}()
		}
	}()
	file := filepath.Join(t.TempDir(), "krb5.conf")
	must.Succeed(t, os.WriteFile(file, fmt.Appendf(nil, "[libdefaults]\nudp_preference_limit = 1\n[realms]\nEXAMPLE.TEST = {\nkdc = %s\n}\n", l.Addr()), 0o600))
	conf, err := LoadConfig(file)
	must.Succeed(t, err)
	f := newForgery(t, AES256SHA1)
	f.service = ticketGranting("EXAMPLE.TEST", "EXAMPLE.TEST")
	return conf, ticket{client: name{kind: 1, parts: []string{"alice"}, realm: "EXAMPLE.TEST"}, server: f.service,
		key: rawKey{f.session.et.id, f.session.value}, end: time.Now().Add(time.Hour), encoded: f.ticket()}
}

// question reads a client's request.
func question(conn net.Conn) []byte {
	var head [4]byte
	_, _ = io.ReadFull(conn, head[:])
	b := make([]byte, min(binary.BigEndian.Uint32(head[:]), 1<<16))
	_, _ = io.ReadFull(conn, b)
	return b
}

var fileService = name{kind: nameServiceHost, parts: []string{"nfs", "server"}, realm: "EXAMPLE.TEST"}

// TestLengthOfAKDCIsBounded: a reply with an invalid stated length is refused before it is read.
func TestLengthOfAKDCIsBounded(t *testing.T) {
	for _, length := range []uint32{0, maxKDCReply + 1, 1<<32 - 1} {
		conf, tgt := kdcOf(t, func(conn net.Conn) {
			question(conn)
			_, _ = conn.Write(binary.BigEndian.AppendUint32(nil, length))
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := conf.serviceTicket(t.Context(), tgt, fileService, false)
		runtime.ReadMemStats(&after)
		if want := fmt.Sprintf("a reply of %d bytes", length); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("length %d: got %v, want %q", length, err, want)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
			t.Errorf("length %d: it took %d bytes of memory, want less than %d", length, got, 64<<20)
		}
	}
}

// TestSilentKDC: a request ends with its context, not only when it times out.
func TestSilentKDC(t *testing.T) {
	asked := make(chan struct{})
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	conf, tgt := kdcOf(t, func(conn net.Conn) {
		question(conn)
		asked <- struct{}{}
		<-end
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := conf.serviceTicket(ctx, tgt, fileService, false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// TestMalformedReplies: each malformed reply is an error.
func TestMalformedReplies(t *testing.T) {
	f := newForgery(t, AES256SHA1)
	e := messages.NewKRBError(kdcName(fileService), "EXAMPLE.TEST", 7, "")
	refusal, err := e.Marshal()
	must.Succeed(t, err)
	for what, b := range map[string][]byte{
		"a ticket":            f.ticket(),
		"a byte":              {0x6d},
		"a long DER length":   {0x6d, 0x84, 0xff, 0xff, 0xff, 0xff},
		"an endless length":   {0x6d, 0x80, 0, 0},
		"a truncated refusal": refusal[:len(refusal)-1],
		"nesting":             []byte(strings.Repeat("\x6d\x80", 1<<15)),
	} {
		conf, tgt := kdcOf(t, func(conn net.Conn) {
			question(conn)
			_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
		})
		if _, err := conf.serviceTicket(t.Context(), tgt, fileService, false); err == nil {
			t.Errorf("%s: got a ticket, want an error", what)
		}
	}
}

// etypeInfo encodes the METHOD-DATA of an error that demands preauthentication (RFC 4120 §5.2.7.5).
func etypeInfo(t testing.TB, enctypes ...int32) []byte {
	t.Helper()
	type entry struct {
		Enctype int32 `asn1:"explicit,tag:0"`
	}
	type data struct {
		Kind  int32  `asn1:"explicit,tag:1"`
		Value []byte `asn1:"explicit,tag:2"`
	}
	list := []entry{}
	for _, id := range enctypes {
		list = append(list, entry{id})
	}
	value, err := asn1.Marshal(list)
	must.Succeed(t, err)
	b, err := asn1.Marshal([]data{{2, nil}, {19, value}})
	must.Succeed(t, err)
	return b
}

// TestWeakPreauthentication: a forged error cannot make the client use a key with an enctype
// that is not configured.
func TestWeakPreauthentication(t *testing.T) {
	const rc4 = 23
	allowed := []int32{AES256SHA1}
	for _, row := range []struct {
		offered []int32
		want    int32
	}{{[]int32{rc4}, 0}, {nil, 0}, {[]int32{rc4, AES256SHA1}, AES256SHA1}} {
		got, err := preauthEnctype(etypeInfo(t, row.offered...), allowed)
		if got != row.want {
			t.Errorf("offered %v: got %d, want %d", row.offered, got, row.want)
		}
		if (err == nil) != (row.want != 0) {
			t.Errorf("offered %v: got error %v", row.offered, err)
		}
	}
	for _, b := range [][]byte{nil, {0x30}, []byte("x")} {
		if _, err := preauthEnctype(b, allowed); err == nil {
			t.Errorf("%x: got no error", b)
		}
	}
}

// FuzzReplies gives any bytes to the decoders of a KDC's messages.
func FuzzReplies(f *testing.F) {
	e := messages.NewKRBError(kdcName(fileService), "EXAMPLE.TEST", errResponseTooBig, "")
	refusal, err := e.Marshal()
	must.Succeed(f, err)
	f.Add(refusal)
	f.Add(etypeInfo(f, AES256SHA1))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = contain(func() (ticket, error) {
			tooBig(b)
			_ = new(messages.ASRep).Unmarshal(b)
			return ticket{}, new(messages.TGSRep).Unmarshal(b)
		})
		_, _ = contain(func() (ticket, error) {
			if id, err := preauthEnctype(b, []int32{AES256SHA1}); err == nil && id != AES256SHA1 {
				t.Errorf("%x: got enctype %d, want %d", b, id, AES256SHA1)
			}
			return ticket{}, nil
		})
	})
}
