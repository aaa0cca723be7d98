// perftest's tests: their operations and message order.

package verbs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs/exchange"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

// A perfTest is one of perftest's programs.
type perfTest struct {
	services []rnic.Service
	size     int // defaults
	iters    int
	access   rnic.Access // the peer's access to the server's memory
	reads    int         // concurrent RDMA Reads answered by each end

	// before and after are the numbers of key exchanges before and after the queue pairs are
	// connected, and before the test starts.
	before, after int
	figures       bool // a barrier and the results follow the test

	client func(*perf) error
	server func(*perf) error // ends at the client's next key, or with an error
}

// perfTests has all tests, by program name without "ib_".
var perfTests = map[string]*perfTest{
	"send_bw": {services: []rnic.Service{rnic.RC, rnic.UC, rnic.UD}, size: 65536, iters: 1000, reads: 1,
		before: 1, after: 3, client: (*perf).stream, server: (*perf).drain},
	"write_bw": {services: []rnic.Service{rnic.RC, rnic.UC}, size: 65536, iters: 5000, reads: 1, access: rnic.RemoteWrite,
		before: 1, after: 2, figures: true, client: (*perf).stream, server: (*perf).awaitClient},
	"read_lat": {services: []rnic.Service{rnic.RC}, size: 2, iters: 1000, reads: 16, access: rnic.RemoteRead,
		before: 2, after: 2, client: (*perf).readEach, server: (*perf).awaitClient},
}

// PerfTests returns the tests' names, sorted.
func PerfTests() []string { return slices.Sorted(maps.Keys(perfTests)) }

// Queue depths.
const (
	perfSends    = 128
	perfReceives = 512
)

// pageSize is the default size, in bytes, of the buffer that a peer's small messages cycle through.
const (
	pageSize  = 4096
	maxCycle  = 1 << 20
	cacheLine = 64
)

// A perf is one run.
type perf struct {
	*end
	t     *control
	test  *perfTest
	name  string
	cycle int // buffer size in bytes; small messages cycle through it
	mtu   int // the agreed path MTU

	// server: the memory written and read by the peer; read_lat's client: the sink
	mr     *rnic.MR
	remote exchange.Key // the peer's key

	report PerfReport
}

// Perf runs one test against a perftest program or itself: "send_bw" against ib_send_bw, and so on.
func Perf(ctx context.Context, name string, o Options) (*PerfReport, error) {
	name = strings.TrimPrefix(strings.ReplaceAll(name, "-", "_"), "ib_")
	test := perfTests[name]
	if test == nil {
		return nil, fmt.Errorf("%s: no such test; there are %s", name, strings.Join(PerfTests(), ", "))
	}
	if !slices.Contains(test.services, o.Service) {
		return nil, fmt.Errorf("--service %s: %s has none over that", serviceNames[o.Service], name)
	}
	if o.CM && o.Service == rnic.UC {
		return nil, errors.New("--service uc: perftest has none with its connection manager (-R)")
	}
	asked := o.Size
	if o.Size == 0 {
		o.Size = test.size
	}
	if o.Iterations == 0 {
		o.Iterations = test.iters
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	to := connectControl
	if o.CM {
		to = connectControlByCM
	}
	t, err := to(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	e, err := newEnd(ctx, &o, perfSends, perfReceives)
	if err != nil {
		return nil, err
	}
	defer e.close()
	p := &perf{end: e, t: t, test: test, name: "ib_" + name}
	key, err := p.setUp(asked)
	if err != nil {
		return nil, err
	}
	return p.run(key)
}

// setUp prepares both ends for the test and returns this end's key.
func (p *perf) setUp(asked int) (key exchange.Key, err error) {
	if p.t.cm != nil {
		p.id.MTU = p.t.cm.mtu // the MTU of the same interface
		err = fitMTU(p.o, p.id.MTU)
	} else {
		err = p.bind(p.t.peer())
	}
	if err != nil {
		return key, err
	}
	if err = p.negotiate(); err != nil {
		return key, err
	}
	if p.o.Service == rnic.UD && asked == 0 {
		p.o.Size = min(p.o.Size, p.mtu)
	}
	if err = fitDatagram(p.o, p.mtu); err != nil {
		return key, err
	}
	p.allocateBuffers()
	if err = p.prepare(); err != nil {
		return key, err
	}
	if p.t.cm != nil {
		if err = p.connectByCM(); err != nil {
			return key, err
		}
	}
	key = p.key()
	for range p.test.before {
		if err = p.exchangeKeys(key, p.t.receive); err != nil {
			return key, err
		}
	}
	if p.t.cm == nil {
		peer := roce.Identity{Addr: p.remote.GID, QPN: p.remote.QPN, PSN: p.remote.PSN}
		if err = p.connect(peer, p.mtu, max(1, int(p.remote.Reads))); err != nil {
			return key, err
		}
	}
	for range p.test.after {
		if err = p.exchangeKeys(key, p.t.receive); err != nil {
			return key, err
		}
	}
	return key, nil
}

// exchangeSetup exchanges one message in setUp.
func (p *perf) exchangeSetup(b []byte) ([]byte, error) {
	return p.t.exchange(p.o.server(), b, p.t.receive)
}

// negotiate exchanges versions, sizes and path MTUs. The larger size and the smaller MTU count.
func (p *perf) negotiate() error {
	if err := p.versions(); err != nil {
		return err
	}
	p.cycle = pageSize
	for i, ours := range []uint32{pageSize, cacheLine} {
		b, err := p.exchangeSetup(exchange.AppendSize(nil, ours))
		if err != nil {
			return err
		}
		n, err := exchange.ParseSize(b)
		if err != nil {
			return err
		}
		if n > maxCycle {
			return fmt.Errorf("%v asks for buffers of %d bytes: at most %d are given", p.t.RemoteAddr(), n, maxCycle)
		}
		if i == 0 {
			p.cycle = max(p.cycle, int(n))
		}
	}
	p.mtu = p.o.MTU
	if p.mtu == 0 {
		p.mtu = p.id.MTU
	}
	b, err := p.exchangeSetup(exchange.AppendMTU(nil, p.mtu))
	if err != nil {
		return err
	}
	theirs, err := exchange.ParseMTU(b)
	if err != nil {
		return fmt.Errorf("%v: %w", p.t.RemoteAddr(), err)
	}
	p.mtu = min(p.mtu, theirs)
	p.o.MTU = p.mtu
	return nil
}

// versions sends our version; a server repeats the client's.
func (p *perf) versions() error {
	if !p.o.server() {
		if err := p.t.send(exchange.AppendVersion(nil, exchange.Version)); err != nil {
			return err
		}
	}
	b, err := p.t.receive(exchange.VersionLen)
	if err != nil {
		return err
	}
	v, err := exchange.ParseVersion(b)
	if err != nil {
		return fmt.Errorf("%v: %w", p.t.RemoteAddr(), err)
	}
	if p.o.server() {
		return p.t.send(exchange.AppendVersion(nil, v))
	}
	return nil
}

// prepare allocates the test's memory and posts receives.
func (p *perf) prepare() (err error) {
	access := p.test.access
	switch {
	case access == 0 && p.o.server():
		return p.receives(perfReceives)
	case access == 0:
		return nil
	case !p.o.server():
		access = rnic.LocalWrite
	}
	p.mr, err = p.pd.RegMR(make([]byte, 2*max(p.o.Size, p.cycle)), access)
	return err
}

// key returns the parameters for the peer.
func (p *perf) key() exchange.Key {
	key := exchange.Key{Reads: uint16(p.test.reads), QPN: p.id.QPN, PSN: p.id.PSN, GID: p.id.Addr}
	if p.mr != nil {
		key.RKey, key.Addr = uint32(p.mr.STag()), p.mr.Base()
	}
	return key
}

// keyLen returns an encoded key's size.
func (p *perf) keyLen() int {
	if p.t.cm != nil {
		return exchange.BinaryKeyLen
	}
	return exchange.KeyLen
}

// appendKey returns the encoded key.
func (p *perf) appendKey(key exchange.Key) []byte {
	if p.t.cm != nil {
		return exchange.AppendBinaryKey(nil, key)
	}
	return exchange.AppendKey(nil, key)
}

// exchangeKeys exchanges keys. Later exchanges are barriers with the same keys.
func (p *perf) exchangeKeys(key exchange.Key, wait func(int) ([]byte, error)) error {
	b, err := p.t.exchange(p.o.server(), p.appendKey(key), wait)
	switch {
	case err != nil:
		return err
	case p.t.cm != nil:
		p.remote, err = exchange.ParseBinaryKey(b)
		p.remote.GID = p.t.cm.peer
		return err
	}
	if p.remote, err = exchange.ParseKey(b); err != nil {
		return fmt.Errorf("%v: %w: has it a GID (-x), and the same test and options?", p.t.RemoteAddr(), err)
	}
	return nil
}
