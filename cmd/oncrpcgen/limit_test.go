// Results over RDMA whose length the arguments limit.

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/testdata/all"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A lister serves the procedures whose results are listings. Each name takes 20 bytes on the wire.
type lister struct{ all.AllV1Server }

const (
	lastName = "sixteen letters!"
	nameSize = 4 + len(lastName)
)

func list(n int, res *all.Listing) error {
	for range n {
		res.Names = append(res.Names, lastName)
	}
	return nil
}

// List returns as many names as fit into the limit.
func (lister) List(_ *transport.Call, args *all.ListArgs, res *all.Listing) error {
	return list((int(args.Range.Count)+all.LIMIT-4)/nameSize, res)
}

func (lister) First(_ *transport.Call, args *all.Range, res *all.Listing) error {
	return list(int(args.Count), res)
}

func (lister) Every(_ *transport.Call, args *all.ListArgs, res *all.Listing) error {
	return list(int(args.Range.Count), res)
}

// serveLister serves a lister over RDMA, and returns a client.
func serveLister(t *testing.T) *all.AllV1Client {
	server := transport.NewServer(transport.ServerConfig{}, all.NewAllV1Program(lister{}))
	device := iwarp.Open(rnic.DeviceConfig{})
	l, err := device.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	served := make(chan error, 1)
	go func() { served <- server.ServeRDMA(device, l) }()
	conn, err := transport.DialRDMA(t.Context(), device, l.Addr().String(), transport.ClientConfig{CallTimeout: patience})
	must.Succeed(t, err)
	t.Cleanup(func() {
		conn.Close()
		must.Succeed(t, server.Shutdown(context.Background()))
		<-served
	})
	return all.NewAllV1Client(conn)
}

// TestReplyLimit: a listing longer than the default limit for results arrives, if the arguments
// allow its length. Without a reply-limit mark, or beyond the limit, the call fails.
func TestReplyLimit(t *testing.T) {
	client := serveLister(t)
	for _, want := range []int{0, 1, 1000, 65_536} {
		limit := want*nameSize + 4 - all.LIMIT
		res, err := client.List(t.Context(), &all.ListArgs{Range: all.Range{Count: uint32(max(limit, 0))}})
		must.Succeed(t, err)
		must.Equal(t, "names", len(res.Names), want)
	}
	const long = 60_000
	_, err := client.Every(t.Context(), &all.ListArgs{Range: all.Range{Count: long}})
	if !errors.Is(err, transport.ErrNoRoom) {
		t.Errorf("a long result without a mark: got %v, want %v", err, transport.ErrNoRoom)
	}
	for limit, want := range map[int64]error{long*int64(nameSize) + 4: nil, 1 << 40: nil, 1000: transport.ErrNoRoom, -1: transport.ErrNoRoom} {
		if _, err = client.First(t.Context(), &all.Range{First: limit, Count: long}); !errors.Is(err, want) {
			t.Errorf("a long result, limit %d: got %v, want %v", limit, err, want)
		}
	}
}
