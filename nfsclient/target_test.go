// Targets: forms that are accepted, forms that are refused, and parsing of what String returns.

package nfsclient

import (
	"errors"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/conformance"
)

func TestParseTarget(t *testing.T) {
	conformance.Proves(t, "R8166-180", "R8166-181", "R8267-025")
	for _, c := range []struct {
		in   string
		want Target
		addr string
	}{
		{"nfsrdma://h/export/a", Target{Host: "h", Path: "/export/a"}, "h:20049"},
		{"nfsrdma://h", Target{Host: "h", Path: "/"}, "h:20049"},
		{"nfsrdma://h:21000/", Target{Host: "h", Port: 21000, Path: "/"}, "h:21000"},
		{"nfsrdma://[::1]:7/x//y/../z/", Target{Host: "::1", Port: 7, Path: "/x//y/../z/"}, "[::1]:7"},
		{"nfsrdma://10.0.0.1/a%20b%3F", Target{Host: "10.0.0.1", Path: "/a b?"}, "10.0.0.1:20049"},
		{"nfs://h/e", Target{Transport: TCP, TransportSet: true, Host: "h", Path: "/e"}, "h:2049"},
		{"h:/e/a b#%", Target{Host: "h", Path: "/e/a b#%"}, "h:20049"},
		{"[fe80::1]:/e", Target{Host: "fe80::1", Path: "/e"}, "[fe80::1]:20049"},
		{"fe80::1:/e", Target{Host: "fe80::1", Path: "/e"}, "[fe80::1]:20049"},
		{"[fe80::1%eth0]:/e", Target{Host: "fe80::1%eth0", Path: "/e"}, "[fe80::1%eth0]:20049"},
		{"fe80::1%eth0:/e", Target{Host: "fe80::1%eth0", Path: "/e"}, "[fe80::1%eth0]:20049"},
		{"nfsrdma://[fe80::1%eth0]:7/e", Target{Host: "fe80::1%eth0", Port: 7, Path: "/e"}, "[fe80::1%eth0]:7"},
		{"nfsrdma://[fe80::1%25eth0]/e%25", Target{Host: "fe80::1%eth0", Path: "/e%"}, "[fe80::1%eth0]:20049"},
		{"nfs://[::1]/a]b%25", Target{Transport: TCP, TransportSet: true, Host: "::1", Path: "/a]b%"}, "[::1]:2049"},
		{"h:/", Target{Host: "h", Path: "/"}, "h:20049"},
		{"a,b,c:/e", Target{Host: "a", Others: "b,c", Path: "/e"}, "a:20049,b:20049,c:20049"},
		{"a:1,b,10.0.0.1:2:/e:/x", Target{Host: "a", Port: 1, Others: "b,10.0.0.1:2", Path: "/e:/x"}, "a:1,b:20049,10.0.0.1:2"},
		{"[::1],fe80::1%eth0,[::2]:7:/e", Target{Host: "::1", Others: "[fe80::1%eth0],[::2]:7", Path: "/e"}, "[::1]:20049,[fe80::1%eth0]:20049,[::2]:7"},
		{"nfsrdma://a,b:7,[fe80::1%eth0]:8/e%20,f", Target{Host: "a", Others: "b:7,[fe80::1%eth0]:8", Path: "/e ,f"}, "a:20049,b:7,[fe80::1%eth0]:8"},
		{"nfs://a:9,b", Target{Transport: TCP, TransportSet: true, Host: "a", Port: 9, Others: "b", Path: "/"}, "a:9,b:2049"},
	} {
		got, err := ParseTarget(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseTarget(%q) = %+v, %v; want %+v", c.in, got, err, c.want)
		}
		if got.Addr() != c.addr {
			t.Errorf("ParseTarget(%q).Addr() = %s, want %s", c.in, got.Addr(), c.addr)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for _, in := range []string{
		"nfsrdma:///e", "http://h/e", "nfsrdma://h:0/e", "nfsrdma://h:70000/e", "nfsrdma://u@h/e",
		"nfsrdma://h/e?x=1", "nfsrdma://h/e#f", "nfsrdma://h/%zz", "nfsrdma://h/%00", "a b:/e", "h:/\x00",
		"nfsrdma://::1/e", "nfsrdma://[::1/e", "nfsrdma://[h]/e",
		"a,:/e", "a,b c:/e", ",a:/e", "a,b:0:/e", "a:x,b:/e", "nfsrdma://a,/e", "nfsrdma://a,b:x/e", "nfsrdma://a,u@b/e",
	} {
		if got, err := ParseTarget(in); err == nil || errors.Is(err, ErrNotRemote) {
			t.Errorf("ParseTarget(%q) = %+v, %v; want an error of its own", in, got, err)
		}
	}
	for _, in := range []string{"", "/a/b", "a", "./h:/e", "a/b:/c", ":/x", "h:e", "[::1]/x", "a:7:/e", "./a,b:/e", "a,b"} {
		if _, err := ParseTarget(in); !errors.Is(err, ErrNotRemote) {
			t.Errorf("ParseTarget(%q): %v, want ErrNotRemote", in, err)
		}
	}
}

func TestParseServer(t *testing.T) {
	for in, want := range map[string]Target{
		"h":              {Host: "h", Path: "/"},
		"h:99":           {Host: "h", Port: 99, Path: "/"},
		"::1":            {Host: "::1", Path: "/"},
		"[::1]":          {Host: "::1", Path: "/"},
		"[::1]:99":       {Host: "::1", Port: 99, Path: "/"},
		"h:/e":           {Host: "h", Path: "/e"},
		"nfsrdma://h:1/": {Host: "h", Port: 1, Path: "/"},
		"a,b:99,[::1]":   {Host: "a", Others: "b:99,[::1]", Path: "/"},
	} {
		if got, err := ParseServer(in); err != nil || got != want {
			t.Errorf("ParseServer(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "a/b", "h:x", "h:0", "a b", "a,", "a,b/c"} {
		if got, err := ParseServer(in); err == nil {
			t.Errorf("ParseServer(%q) = %+v, want an error", in, got)
		}
	}
}

func TestServersOfATarget(t *testing.T) {
	got, err := ParseTarget("nfs://a:9,[fe80::1],b:7/e")
	if err != nil {
		t.Fatalf("parse target: %v", err)
	}
	one := Target{Transport: TCP, TransportSet: true, Path: "/e"}
	var want []Target
	for host, port := range map[string]int{"a": 9, "fe80::1": 0, "b": 7} {
		one.Host, one.Port = host, port
		want = append(want, one)
	}
	all := got.Servers()
	var hosts []string
	for _, s := range all {
		hosts = append(hosts, s.Host)
	}
	if want := []string{"a", "fe80::1", "b"}; !slices.Equal(hosts, want) {
		t.Fatalf("hosts: got %q, want %q", hosts, want)
	}
	for _, w := range want {
		if !slices.Contains(all, w) {
			t.Errorf("%+v is not in %+v", w, all)
		}
	}
	if hosts := got.Hosts(); hosts != "a,[fe80::1],b" {
		t.Errorf("hosts: %s", hosts)
	}
}

func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"nfsrdma://h:1/a%20b", "h:/e", "[::1]:/e", "nfs://[::1]:9/", "/a", "x://", "a,[::1]:7:/e", "nfs://a,b:7/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTarget(s)
		if err != nil {
			return
		}
		got.TransportSet = got.Transport == TCP // String always names TCP
		again, err := ParseTarget(got.String())
		if err != nil || again != got {
			t.Fatalf("%q gives %+v, which is written %q and read %+v, %v", s, got, got.String(), again, err)
		}
	})
}

func TestTransportsHaveNames(t *testing.T) {
	for tr, want := range map[Transport]string{RDMA: "rdma", TCP: "tcp", 7: "transport 7"} {
		if got := tr.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
