// A KDC's clock: the KDC's answer to a request for a nonexistent client shows its time (RFC 4120).

package doctor

import (
	"context"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
)

// findKDCs returns the addresses of a realm's KDCs, from krb5.conf or DNS.
func findKDCs(ctx context.Context, conf *krb5.Config, realm string) []string {
	if list := conf.KDCs(realm); len(list) > 0 {
		return list
	}
	_, records, _ := net.DefaultResolver.LookupSRV(ctx, "kerberos", "tcp", realm)
	var list []string
	for _, r := range records {
		list = append(list, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
	}
	return list
}

// Messages in RFC 4120 §5.4.1 and §5.9.1, with the fields needed here.
type (
	kdcRequest struct {
		Version int        `asn1:"explicit,tag:1"`
		Type    int        `asn1:"explicit,tag:2"`
		Body    kdcReqBody `asn1:"explicit,tag:4"`
	}
	kdcReqBody struct {
		Options  asn1.BitString `asn1:"explicit,tag:0"`
		Client   kdcName        `asn1:"explicit,tag:1"`
		Realm    asn1.RawValue  // [2], with a tag of its own: package asn1 adds none
		Server   kdcName        `asn1:"explicit,tag:3"`
		Till     time.Time      `asn1:"explicit,tag:5,generalized"`
		Nonce    int            `asn1:"explicit,tag:7"`
		Enctypes []int          `asn1:"explicit,tag:8"`
	}
	kdcName struct {
		Type  int             `asn1:"explicit,tag:0"`
		Parts []asn1.RawValue `asn1:"explicit,tag:1"`
	}
	kdcError struct {
		Version int       `asn1:"explicit,tag:0"`
		Type    int       `asn1:"explicit,tag:1"`
		CTime   time.Time `asn1:"explicit,optional,tag:2,generalized"`
		CUsec   int       `asn1:"explicit,optional,tag:3"`
		STime   time.Time `asn1:"explicit,tag:4,generalized"`
		SUsec   int       `asn1:"explicit,tag:5"`
	}
)

// Numbers in RFC 4120 §5.10 and §7.5.7, and the limit of an answer in bytes.
const (
	asRequest    = 10
	krbError     = 30
	maxKDCAnswer = 64 << 10
)

var errKDCAnswer = errors.New("the answer is not one of a KDC")

// askForTime encodes a request for a ticket, for a client that does not exist.
func askForTime(realm string, now time.Time) ([]byte, error) {
	text := func(s string) asn1.RawValue { return asn1.RawValue{Tag: asn1.TagGeneralString, Bytes: []byte(s)} }
	name, err := asn1.Marshal(text(realm))
	if err != nil {
		return nil, err
	}
	inner, err := asn1.Marshal(kdcRequest{Version: 5, Type: asRequest, Body: kdcReqBody{
		Options: asn1.BitString{Bytes: make([]byte, 4), BitLength: 32},
		Client:  kdcName{1, []asn1.RawValue{text("nfsrdma-doctor-asks-for-the-time")}},
		Realm:   asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 2, IsCompound: true, Bytes: name},
		Server:  kdcName{2, []asn1.RawValue{text("krbtgt"), text(realm)}},
		Till:    now.Add(time.Hour).UTC().Truncate(time.Second), Nonce: 1, Enctypes: []int{18, 17, 20, 19},
	}})
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(asn1.RawValue{Class: asn1.ClassApplication, Tag: asRequest, IsCompound: true, Bytes: inner})
}

// timeOf returns the KDC's time in its answer.
func timeOf(answer []byte) (time.Time, error) {
	var outer asn1.RawValue
	if _, err := asn1.Unmarshal(answer, &outer); err != nil || outer.Class != asn1.ClassApplication || outer.Tag != krbError {
		return time.Time{}, errKDCAnswer
	}
	var e kdcError
	if _, err := asn1.Unmarshal(outer.Bytes, &e); err != nil || e.STime.IsZero() {
		return time.Time{}, errKDCAnswer
	}
	return e.STime.Add(time.Duration(e.SUsec) * time.Microsecond), nil
}

// kdcTime queries a KDC over TCP for its time (RFC 4120 §7.2.2).
func (cu *checkup) kdcTime(ctx context.Context, addr, realm string) (time.Time, error) {
	c, err := cu.Dial(ctx, "tcp", addr)
	if err != nil {
		return time.Time{}, err
	}
	defer c.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end)
	}
	request, err := askForTime(realm, cu.Now())
	if err != nil {
		return time.Time{}, err
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...)); err != nil {
		return time.Time{}, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return time.Time{}, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxKDCAnswer {
		return time.Time{}, errKDCAnswer
	}
	answer := make([]byte, n)
	if _, err := io.ReadFull(c, answer); err != nil {
		return time.Time{}, err
	}
	return timeOf(answer)
}
