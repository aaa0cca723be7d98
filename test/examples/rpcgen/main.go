// A service from a file in the RPC language, served and called over RDMA and TCP.

package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
)

//go:generate go run github.com/nfsrdma/nfsrdma/cmd/oncrpcgen store.x

// A store serves STORE_V1.
type store struct {
	mu       sync.Mutex
	versions map[string][][]byte
}

// Put copies the data, because the arguments end with the call.
func (s *store) Put(_ *transport.Call, args *PutArgs, res *Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.versions[args.Name]
	if *res = STORED; len(list) == 8 {
		*res = FULL
		return nil
	}
	s.versions[args.Name] = append(list, bytes.Clone(args.Data))
	return nil
}

// Get returns the latest version. Nothing changes it, so the reply can point to it.
func (s *store) Get(_ *transport.Call, name Name, res *GetRes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.versions[name]
	if len(list) == 0 {
		res.Outcome = MISSING
		return nil
	}
	res.Found = Found{Count: uint32(len(list)), Data: list[len(list)-1]}
	return nil
}

func (s *store) List(_ *transport.Call, res *Listing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.versions)) {
		e := Entry{Name: name}
		for _, data := range s.versions[name] {
			e.Sizes = append(e.Sizes, uint32(len(data)))
		}
		res.Entries = append(res.Entries, e)
	}
	return nil
}

func main() {
	server := transport.NewServer(transport.ServerConfig{}, NewStoreV1Program(&store{versions: map[string][][]byte{}}))
	device := iwarp.Open(rnic.DeviceConfig{})
	rdma, err := device.Listen("tcp", "127.0.0.1:0")
	check(err)
	tcp, err := transport.Listen("127.0.0.1:0")
	check(err)
	go server.ServeRDMA(device, rdma)
	go server.ServeTCP(tcp)

	ctx := context.Background()
	overRDMA, err := transport.DialRDMA(ctx, device, rdma.Addr().String(), transport.ClientConfig{})
	check(err)
	overTCP, err := transport.DialTCP(ctx, tcp.Addr().String(), transport.ClientConfig{})
	check(err)
	for i, conn := range []*transport.Client{overRDMA, overTCP} {
		client := NewStoreV1Client(conn)
		outcome, err := client.Put(ctx, &PutArgs{Name: "zeros", Data: make([]byte, 100_000*(i+1))})
		check(err)
		sink := make([]byte, MAXSIZE) // the data is placed here
		res, err := client.Get(ctx, "zeros", sink)
		check(err)
		list, err := client.List(ctx)
		check(err)
		fmt.Println(outcome, res.Found.Count, len(res.Found.Data), &res.Found.Data[0] == &sink[0], list.Entries)
		conn.Close()
	}
	check(server.Shutdown(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
