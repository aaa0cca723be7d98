// nfsrdma doctor on the command line: the forms of its argument, its exit status, its JSON.

package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
)

func TestDoctor(t *testing.T) {
	rdma, tcp := serve(t)
	_, rdmaPort, _ := net.SplitHostPort(strings.TrimPrefix(rdma, "nfsrdma://"))
	_, tcpPort, _ := net.SplitHostPort(strings.TrimPrefix(tcp, "nfs://"))
	for _, args := range [][]string{
		{"127.0.0.1", "--rdma-port", rdmaPort, "--tcp-port", tcpPort},
		{"127.0.0.1:/mem", "--rdma-port", rdmaPort, "--tcp-port", tcpPort, "--write"},
		{rdma + "/mem", "--tcp-port", tcpPort},
		{tcp + "/dir", "--rdma-port", "1"},
	} {
		out, errs, code := try(t, append([]string{"doctor"}, args...)...)
		if code != 0 || errs != "" || !strings.Contains(out, "OK    MNT") || !strings.Contains(out, "mount -t nfs -o vers=3,proto=") {
			t.Errorf("doctor %q: code %d, %s\n%s", args, code, errs, out)
		}
	}
	out, errs, code := try(t, "doctor", "--json", rdma+"/nothing", "--tcp-port", tcpPort)
	var r struct {
		Server, Export string
		OK             bool
		Checks         []struct{ Check, Status, Finding, Advice string }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if code != 1 || strings.Count(errs, "\n") != 1 {
		t.Errorf("code %d, errors %q, want 1 and one line", code, errs)
	}
	if r.OK || r.Server != "127.0.0.1" || r.Export != "/nothing" || len(r.Checks) < 20 {
		t.Errorf("%+v, want 20 checks or more of 127.0.0.1 and /nothing, not OK", r)
	}
	for _, c := range r.Checks {
		if c.Check == "MNT" && (c.Status != "FAIL" || !strings.Contains(c.Finding, "/nothing") || c.Advice == "") {
			t.Errorf("%+v", c)
		}
	}
	for want, args := range map[string][]string{
		"in 1..65535": {"doctor", "h", "--rdma-port", "-1"}, "an argument is missing": {"doctor"}, "is not a name or an address": {"doctor", "a b"},
	} {
		if _, errs, code := try(t, args...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%q: code %d, %s", args, code, errs)
		}
	}
}
