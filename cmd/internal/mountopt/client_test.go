// The values that options give: defaults, several lists, cache times, and the connection.

package mountopt

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// mustParse returns the options in the given lists.
func mustParse(t *testing.T, lists ...string) *Options {
	t.Helper()
	o, err := Parse(lists, false)
	if err != nil {
		t.Fatalf("%q: %v", lists, err)
	}
	return o
}

// TestDefaults: the defaults of nfs(5), one by one.
func TestDefaults(t *testing.T) {
	want := Options{NConnect: 1, Provider: nfsclient.AutoProvider, Retrans: 2, Retry: -1, AttrFileMin: 3 * time.Second, AttrFileMax: time.Minute, AttrDirMin: 30 * time.Second, AttrDirMax: time.Minute}
	for _, lists := range [][]string{nil, {""}, {"", " ", ",,"}, {"defaults"}, {"rw", "hard,fg,ac,cto,lock"}} {
		if got := mustParse(t, lists...); *got != want {
			t.Errorf("%q: %+v\nwant %+v", lists, *got, want)
		}
	}
	o := mustParse(t)
	if o.CRC != rnic.CRCOn {
		t.Errorf("crc: %v, want on", o.CRC)
	}
	if o.Provider != nfsclient.AutoProvider {
		t.Errorf("rdma: %v, want auto", o.Provider)
	}
	if got := o.SoftTimeout(); got != 2*time.Minute {
		t.Errorf("timeo × retrans: %v, want 2m", got)
	}
}

// TestLists: each -o continues the list before it, and a quote must end in its own -o.
func TestLists(t *testing.T) {
	for _, c := range []struct {
		lists []string
		want  string // the formatted options, or the beginning of an error
	}{
		{[]string{"ro", "rw"}, formatted(defaults())},
		{[]string{"rw", "ro"}, formatted(defaults()) + ",ro"},
		{[]string{"nosuid,user", "suid"}, formatted(defaults()) + ",nodev,noexec"},
		{[]string{"soft", "hard"}, "options soft and hard contradict each other"},
		{[]string{"soft", "soft"}, "soft," + formatted(defaults())},
		{[]string{"nolock", "local_lock=posix"}, "options nolock and local_lock=posix contradict each other"},
		{[]string{`x-a="b`, `c",ro`}, `option x-a="b: the quote is not closed`},
		{[]string{"sync", "noac"}, "noac,sync"},
		{[]string{"zzz", "sloppy"}, formatted(defaults())},
	} {
		got := ""
		if o, err := Parse(c.lists, false); err != nil {
			got = err.Error()
		} else {
			got = formatted(o)
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: %s, want %s", c.lists, got, c.want)
		}
	}
}

// TestSloppy: unknown options are ignored. Invalid values of known ones are still errors, because
// the mount would differ without them.
func TestSloppy(t *testing.T) {
	for _, list := range []string{"zzz", "zzz=1", "ro,zzz,yyy=a=b", "RO", "=", `zzz="a,soft"`} {
		if _, err := Parse([]string{list}, true); err != nil {
			t.Errorf("%q, sloppy: %v", list, err)
		}
		if _, err := Parse([]string{list}, false); err == nil {
			t.Errorf("%q was accepted, want an error", list)
		}
		if _, err := Parse([]string{"sloppy," + list}, false); err != nil {
			t.Errorf("%q with the option sloppy: %v", list, err)
		}
	}
	for _, list := range []string{"port=x", "soft,hard", "udp", "vers=4", "soft=1", "port", "remount", `x-a="`} {
		if _, err := Parse([]string{list}, true); err == nil {
			t.Errorf("%q, sloppy: was accepted, want an error", list)
		}
	}
}

// attrTimes computes the attribute-cache times as the help text describes: given times, and
// defaults adjusted to the given times.
func attrTimes(given map[string]int) (times [4]int, ok bool) {
	all, every := given["actimeo"]
	names := [4]string{"acregmin", "acregmax", "acdirmin", "acdirmax"}
	times = [4]int{3, 60, 30, 60}
	for i, name := range names {
		n, said := given[name]
		switch {
		case every && said && n != all:
			return times, false
		case every:
			times[i] = all
		case said:
			times[i] = n
		}
	}
	for i := 0; i < 4; i += 2 {
		_, low := given[names[i]]
		_, high := given[names[i+1]]
		switch {
		case every || times[i] <= times[i+1]:
		case low && high:
			return times, false
		case low:
			times[i+1] = times[i]
		default:
			times[i] = times[i+1]
		}
	}
	return times, true
}

// TestAttributeTimes: random times, in random order, have the result that attrTimes computes.
func TestAttributeTimes(t *testing.T) {
	names := []string{"acregmin", "acregmax", "acdirmin", "acdirmax", "actimeo"}
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		given, list := map[string]int{}, []string{}
		for range r.IntN(6) {
			name := names[r.IntN(len(names))]
			if _, twice := given[name]; twice {
				continue
			}
			given[name] = []int{0, 1, 5, 30, 60, 61, 100}[r.IntN(7)]
			list = append(list, fmt.Sprintf("%s=%d", name, given[name]))
		}
		want, ok := attrTimes(given)
		o, err := Parse([]string{strings.Join(list, ",")}, false)
		if (err == nil) != ok {
			t.Fatalf("seed %d: %v: %v, want it accepted: %t", seed, list, err, ok)
		}
		if !ok {
			continue
		}
		for i, got := range []time.Duration{o.AttrFileMin, o.AttrFileMax, o.AttrDirMin, o.AttrDirMax} {
			if got != time.Duration(want[i])*time.Second {
				t.Fatalf("seed %d: %v: %s is %v, want %d s", seed, list, names[i], got, want[i])
			}
		}
	}
}

// TestClientFields: each option of the connection changes its field of the client's options, and
// no other one.
func TestClientFields(t *testing.T) {
	plain := func() nfsclient.Options {
		return nfsclient.Options{Transport: nfsclient.RDMA, Conns: 1, Provider: nfsclient.AutoProvider, CRC: rnic.CRCOn, BlockThreads: true, CallTimeout: transport.Hard}
	}
	for list, change := range map[string]func(*nfsclient.Options){
		"":                     func(*nfsclient.Options) {},
		"proto=rdma":           func(*nfsclient.Options) {},
		"tcp":                  func(c *nfsclient.Options) { c.Transport = nfsclient.TCP },
		"nconnect=4":           func(c *nfsclient.Options) { c.Conns = 4 },
		"mounthost=m":          func(c *nfsclient.Options) { c.MountHost = "m" },
		"mountport=635":        func(c *nfsclient.Options) { c.MountPort = 635 },
		"nlmport=4045":         func(c *nfsclient.Options) { c.LockPort = 4045 },
		"rdma=iwarp":           func(c *nfsclient.Options) { c.Provider = nfsclient.IWARP },
		"rdma=roce":            func(c *nfsclient.Options) { c.Provider = nfsclient.RoCE },
		"crc=off":              func(c *nfsclient.Options) { c.CRC = rnic.CRCOff },
		"crc=strict":           func(c *nfsclient.Options) { c.CRC = rnic.CRCStrict },
		"timeo=15":             func(c *nfsclient.Options) { c.RetryTimeout = 1500 * time.Millisecond },
		"soft,retrans=3":       func(c *nfsclient.Options) { c.CallTimeout = 3 * time.Minute },
		"softerr,timeo=10":     func(c *nfsclient.Options) { c.CallTimeout, c.RetryTimeout = 2*time.Second, time.Second },
		"retrans=9,hard":       func(*nfsclient.Options) {},
		"rsize=65536":          func(c *nfsclient.Options) { c.ReadSize = 65536 },
		"wsize=65536":          func(c *nfsclient.Options) { c.WriteSize = 65536 },
		"ro,noac,nolock,noacl": func(*nfsclient.Options) {},
	} {
		o := mustParse(t, list)
		s, err := o.Source("h:/x")
		if err != nil {
			t.Fatalf("%q: %v", list, err)
		}
		want, got := plain(), o.Client(s.Targets[0])
		change(&want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v\nwant %+v", list, got, want)
		}
	}
	h := nfsclient.Target{Host: "h"}
	if c := mustParse(t, "noresvport").Client(h); c.Dial == nil {
		t.Error("noresvport: connections are dialed from reserved ports, want any")
	}
	for list, want := range map[string][2]uint32{"uid=7,gid=8": {7, 8}, "uid=7": {7, transport.SysCred().GID}, "gid=8": {transport.SysCred().UID, 8}} {
		c := mustParse(t, list).Client(h).Cred
		if c == nil {
			t.Errorf("%s: no credential, want one", list)
			continue
		}
		if got := [2]uint32{c.UID, c.GID}; got != want {
			t.Errorf("%s: user and group %d, want %d", list, got, want)
		}
	}
}

// TestTransportsOfTheSource: a URL selects its transport, and contradicts options that select
// another.
func TestTransportsOfTheSource(t *testing.T) {
	for _, c := range []struct{ spec, list, want string }{
		{"nfs://h/x", "", "tcp"},
		{"nfs://h/x", "tcp", "tcp"},
		{"nfs://h/x", "proto=auto", "contradicts option proto=auto"},
		{"nfs://h/x", "rdma", "contradicts option proto=rdma"},
		{"nfsrdma://h/x", "", "rdma"},
		{"nfsrdma://h/x", "rdma", "rdma"},
		{"nfsrdma://h/x", "proto=auto", "rdma tcp"},
		{"h:/x", "rdma=roce", "rdma"},
		{"h:/x", "rdma=roce,tcp", "tcp"},
		{"h:/x", "proto=auto,port=0", "rdma tcp"},
	} {
		s, err := mustParse(t, c.list).Source(c.spec)
		if err != nil {
			if !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%s with %q: %v, want %s", c.spec, c.list, err, c.want)
			}
			continue
		}
		var got []string
		for _, target := range s.Targets {
			got = append(got, target.Transport.String())
		}
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s with %q: %v, want %v", c.spec, c.list, got, want)
		}
	}
}

// TestRows: no row has an old name, and each option is in one row.
func TestRows(t *testing.T) {
	seen := map[string]int{}
	for _, r := range Rows() {
		for _, usage := range r.Usage {
			name, _, _ := strings.Cut(usage, "=")
			seen[strings.TrimSuffix(name, "[")]++
		}
	}
	for _, x := range options {
		want := 1
		if x.kind == renamed {
			want = 0
		}
		if seen[x.name] != want {
			t.Errorf("%s is in %d rows, want %d", x.name, seen[x.name], want)
		}
	}
}
