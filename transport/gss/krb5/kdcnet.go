// Messages to KDCs and their replies, over UDP and TCP (RFC 4120 §7.2).

package krb5

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/messages"
)

const (
	// tryTime bounds one attempt with one KDC, besides the caller's context.
	tryTime = 5 * time.Second
	// maxKDCReply bounds a reply in bytes. Over TCP the KDC, or an attacker on the path, states the
	// length. Tickets with a large directory's groups have 64 KiB.
	maxKDCReply = 1 << 20
	// maxDatagram is the longest reply over UDP, in bytes.
	maxDatagram = 1 << 16
	// maxKDCs bounds the KDCs that are tried for a realm, because DNS may name any number.
	maxKDCs = 16
)

// errResponseTooBig asks for TCP (RFC 4120 §7.2.1).
const errResponseTooBig = 52

// sendToKDC sends a message to a realm's KDCs in turn until one answers. Messages up to
// udp_preference_limit go over UDP first, others over TCP first; if it is 1, none go over UDP.
func (c *Config) sendToKDC(ctx context.Context, realm string, message []byte) ([]byte, error) {
	networks := []string{"tcp", "udp"}
	switch limit := c.kdc.LibDefaults.UDPPreferenceLimit; {
	case limit == 1:
		networks = networks[:1]
	case len(message) <= limit:
		networks = []string{"udp", "tcp"}
	}
	var failures []error
	for _, network := range networks {
		list, err := c.findKDCs(ctx, network, realm)
		if err != nil {
			failures = append(failures, err)
		}
		for _, addr := range list {
			reply, err := askKDC(ctx, network, addr, message)
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err == nil && network == "udp" && tooBig(reply):
				failures = append(failures, fmt.Errorf("KDC %s: the reply is too long for UDP", addr))
			case err == nil:
				return reply, nil
			default:
				failures = append(failures, fmt.Errorf("KDC %s over %s: %w", addr, network, err))
			}
		}
	}
	return nil, krbError(majorNoCred, CodeNoKDC, "no KDC of realm %s answers: %v", realm, errors.Join(failures...))
}

// tooBig reports whether a reply asks for TCP.
func tooBig(reply []byte) bool {
	var e messages.KRBError
	return e.Unmarshal(reply) == nil && e.ErrorCode == errResponseTooBig
}

// findKDCs returns a realm's KDCs, "host:port", from krb5.conf or else from DNS.
func (c *Config) findKDCs(ctx context.Context, network, realm string) ([]string, error) {
	list := c.KDCs(realm)
	if len(list) > 0 {
		return list[:min(len(list), maxKDCs)], nil
	}
	if !c.kdc.LibDefaults.DNSLookupKDC {
		return nil, fmt.Errorf("krb5.conf has no KDC of realm %s", realm)
	}
	_, found, err := net.DefaultResolver.LookupSRV(ctx, "kerberos", network, realm)
	if err != nil {
		return nil, fmt.Errorf("krb5.conf has no KDC of realm %s, and neither has DNS: %w", realm, err)
	}
	for _, s := range found[:min(len(found), maxKDCs)] {
		list = append(list, net.JoinHostPort(strings.TrimSuffix(s.Target, "."), strconv.Itoa(int(s.Port))))
	}
	return list, nil
}

// askKDC makes one attempt.
func askKDC(ctx context.Context, network, addr string, message []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if network == "udp" {
		return askByDatagram(conn, message)
	}
	return askByStream(conn, message)
}

func askByDatagram(conn net.Conn, message []byte) ([]byte, error) {
	if _, err := conn.Write(message); err != nil {
		return nil, err
	}
	b := make([]byte, maxDatagram)
	n, err := conn.Read(b)
	return b[:n], err
}

// askByStream sends a message after its length, and reads a reply in that form (RFC 4120 §7.2.2).
func askByStream(conn net.Conn, message []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > maxKDCReply {
		return nil, fmt.Errorf("a reply of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(conn, b)
	return b, err
}
