// Linearizability with two servers: names in a directory, and a file's content.

package juicefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A step is a client's request: to create, remove or look up a name, or to write or read the
// content.
type step struct {
	what  string
	name  string // each name and the content are checked separately
	value int
}

// history is the model of names and content. Its state is the content's number, or 1 for a name
// that exists.
var history = porcupine.Model{
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		byName := map[string][]porcupine.Operation{}
		for _, o := range all {
			name := o.Input.(step).name
			byName[name] = append(byName[name], o)
		}
		for _, part := range byName {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return 0 },
	Step: func(state, in, out any) (bool, any) {
		is, s, got := state.(int), in.(step), out.(int)
		switch s.what {
		case "write":
			return true, s.value
		case "create": // result 1: created; 0: the name existed
			return got == 1-is, 1
		case "remove": // result 1: the name existed
			return got == is, 0
		}
		return got == is, is // read, lookup
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %v", in, out) },
}

// ask makes a step's call and returns the outcome as a number in the model.
func (s step) ask(ctx context.Context, c *nfsclient.Client, root, file nfs3.FH) (out int, err error) {
	switch s.what {
	case "write":
		_, err = c.Write(ctx, file, fmt.Appendf(nil, "%08d", s.value), 0, nfs3.FileSync)
		return 0, err
	case "read":
		var b [8]byte
		if _, _, err = c.Read(ctx, file, b[:], 0); err == nil {
			out, err = strconv.Atoi(strings.TrimRight(string(b[:]), "\x00"))
		}
		return out, err
	case "create":
		_, err = c.Create(ctx, root, s.name, nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: 0o666}, nfs3.Verf{})
	case "remove":
		err = c.Remove(ctx, root, s.name)
	case "lookup":
		_, err = c.Lookup(ctx, root, s.name)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return 1, err
}

const (
	linearClients = 4 // number of clients for each server
	linearSteps   = 40
)

// TestLinearizable: clients of two servers make, remove and look up the same names, and write and
// read one file. The metadata is in Redis: on PostgreSQL two servers that remove a name at the same
// moment both succeed (see sql.go).
func TestLinearizable(t *testing.T) {
	url, _, _ := newVolume(t)
	var mu sync.Mutex
	var all []porcupine.Operation // the requests so far, guarded by mu
	var wg sync.WaitGroup
	began := time.Now()
	var root, file nfs3.FH
	for i := range 2 {
		f := openShared(t, Options{Meta: url})
		addr, end := serve(t, f)
		t.Cleanup(end)
		c, _ := mount(t, addr)
		if i == 0 {
			var err error
			if root, err = c.MountHandle(t.Context(), "/vol"); err != nil {
				t.Fatalf("MountHandle: %v", err)
			}
			file = (&side{f, c, root}).create(t, "content")
			if _, err := c.Write(t.Context(), file, []byte("00000000"), 0, nfs3.FileSync); err != nil {
				t.Fatalf("Write: %v", err)
			}
		}
		for k := range linearClients {
			id := i*linearClients + k
			rnd := rand.New(rand.NewSource(int64(id)))
			wg.Go(func() {
				for n := range linearSteps {
					s := step{"read", "content", 0}
					switch x := rnd.Intn(6); x {
					case 0:
						s = step{"write", "content", 1 + id*linearSteps + n}
					case 1, 2, 3:
						s = step{[]string{"create", "remove", "lookup"}[x-1], fmt.Sprint("name-", rnd.Intn(2)), 0}
					}
					call := time.Since(began)
					out, err := s.ask(context.Background(), c, root, file)
					back := time.Since(began)
					if err != nil {
						t.Errorf("%+v: %v", s, err)
						return
					}
					mu.Lock()
					all = append(all, porcupine.Operation{ClientId: id, Input: s, Call: int64(call), Output: out, Return: int64(back)})
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if !porcupine.CheckOperations(history, all) {
		t.Errorf("no order of these %d calls gives what was seen", len(all))
		for _, o := range all {
			t.Logf("%d to %d: client %d, %+v: %v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
		}
	}
}
