// The rates between two snapshots.

package top

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/figures"
)

// A Report is what a server did in an interval. Rates are for each second of it.
type Report struct {
	Server    string    `json:"server"`            // its socket or address
	Version   string    `json:"version,omitempty"` // the server's
	Time      time.Time `json:"time"`              // when the interval ended
	Interval  float64   `json:"interval_seconds"`  // covered by the rates
	Uptime    float64   `json:"uptime_seconds"`    // since the server started
	Restarted bool      `json:"restarted"`         // in the interval: rates begin with the restart

	Calls    float64 `json:"calls_per_second"`          // of all programs
	In       float64 `json:"in_bytes_per_second"`       // arguments of calls, data included
	Out      float64 `json:"out_bytes_per_second"`      // results of calls, data included
	Errors   float64 `json:"errors_per_second"`         // calls that failed
	Repeated float64 `json:"repeated_calls_per_second"` // sent again by clients
	// connections, calls and clients that were refused
	Refused         float64 `json:"refusals_per_second"`
	Retransmissions float64 `json:"roce_retransmissions_per_second"` // over RoCE
	// locks that were released for clients that restarted
	LocksLost float64 `json:"locks_lost_per_second"`

	CPU         float64        `json:"cpu_seconds_per_second"` // 1: one processor
	Memory      float64        `json:"memory_bytes"`           // in the process
	Connections map[string]int `json:"connections"`            // by protocol: tcp, iwarp, roce
	Credits     float64        `json:"credits_granted"`        // calls over RDMA that can be under way
	Queued      float64        `json:"credits_used"`           // calls over RDMA that are in the server
	Budget      float64        `json:"budget_bytes"`           // for data under way
	BudgetUsed  float64        `json:"budget_used_bytes"`      // data under way
	// connections that wait for room
	Waiting      float64 `json:"budget_waiting_connections"`
	Locks        float64 `json:"locks_held"`    // by clients
	LocksWaiting float64 `json:"locks_waiting"` // blocking requests

	Operations []Operation `json:"operations"` // procedures with calls in the interval
	// each connection, where the control socket was asked
	Clients     []ClientRate `json:"clients,omitempty"`
	ClientsSeen bool         `json:"-"`
}

// An Operation is a procedure of a program over one transport.
type Operation struct {
	Program   string  `json:"program"`              // such as nfs
	Procedure string  `json:"procedure"`            // such as READ
	Transport string  `json:"transport"`            // rdma or tcp
	Calls     float64 `json:"calls_per_second"`     // of this procedure
	In        float64 `json:"in_bytes_per_second"`  // arguments, data included
	Out       float64 `json:"out_bytes_per_second"` // results, data included
	Mean      float64 `json:"mean_seconds"`         // run time of the procedure
	P99       float64 `json:"p99_seconds"`          // 99 % of the calls ran at most this long
	Queue     float64 `json:"running"`              // calls that ran at once, on average
	Errors    float64 `json:"errors_per_second"`    // calls that failed
}

// A ClientRate is one connection of a client.
type ClientRate struct {
	Address   string   `json:"address"`   // address and port
	Transport string   `json:"transport"` // tcp, rdma/iwarp or rdma/roce
	Exports   []string `json:"exports"`   // used by the connection
	// that have called in the interval, those with the most calls first
	Users   []UserRate `json:"users"`
	Calls   float64    `json:"calls_per_second"`     // of this connection
	In      float64    `json:"in_bytes_per_second"`  // messages as a whole
	Out     float64    `json:"out_bytes_per_second"` // likewise
	Queue   float64    `json:"credits_used"`         // over RDMA: its calls that are in the server
	Credits float64    `json:"credits_granted"`      // calls that can be under way
	Age     float64    `json:"age_seconds"`          // since the connection was made
	Idle    float64    `json:"idle_seconds"`         // since its last call
	XprtSec string     `json:"xprtsec"`              // none, tls, or mtls: both ends have certificates
	Cipher  string     `json:"cipher,omitempty"`     // absent without TLS
	Sec     []string   `json:"sec"`                  // its users' flavors, the newest user's first
}

// A UserRate is a user of a connection.
type UserRate struct {
	Sec string `json:"sec"` // security flavor: none, sys, krb5, krb5i or krb5p
	// null: AUTH_NONE, or a principal that is no user there
	UID       *uint32 `json:"uid"`
	Principal string  `json:"principal,omitempty"` // with krb5 flavors
	Calls     float64 `json:"calls_per_second"`    // this user's
}

// since computes the report between two snapshots.
func (now *Snapshot) since(before *Snapshot, server string) *Report {
	seconds := max(now.At.Sub(before.At).Seconds(), 0)
	d := delta{now.Figures, before.Figures, seconds}
	started := now.Figures.Sum(nameStart)
	r := &Report{Server: server, Time: now.At, Interval: seconds, Connections: map[string]int{}}
	if r.Restarted = started != before.Figures.Sum(nameStart); r.Restarted {
		d.before = nil
	}
	if started > 0 {
		r.Uptime = max(float64(now.At.UnixNano())/1e9-started, 0)
	}
	for _, s := range now.Figures[nameBuild] {
		r.Version = s.Labels["version"]
	}
	for name, to := range map[string]*float64{nameCalls: &r.Calls, nameIn: &r.In, nameOut: &r.Out, nameErrors: &r.Errors, nameRepeated: &r.Repeated,
		nameRefused: &r.Refused, nameAgain: &r.Retransmissions, nameLost: &r.LocksLost, nameCPU: &r.CPU} {
		*to = d.sum(name)
	}
	for name, to := range map[string]*float64{nameMemory: &r.Memory, nameGranted: &r.Credits, nameUsed: &r.Queued, nameBudget: &r.Budget, nameHeld: &r.BudgetUsed,
		nameWaiting: &r.Waiting, nameLocks: &r.Locks, nameBlocked: &r.LocksWaiting} {
		*to = max(now.Figures.Sum(name), 0)
	}
	for _, s := range now.Figures[nameConns] {
		by := cmp.Or(s.Labels["rdma"], s.Labels["transport"])
		r.Connections[by] += int(min(max(s.Value, 0), 1e9))
	}
	r.Operations = d.operations()
	r.ClientsSeen = now.Clients != nil
	r.Clients = clientsSince(now.Clients, before.Clients, seconds, r.Restarted)
	return r
}

// A delta has the metrics of two snapshots and the seconds between the snapshots.
type delta struct {
	now, before figures.Set
	seconds     float64
}

// growth returns a counter's growth. As in Prometheus, a counter below its old value has restarted
// at 0.
func growth(now, before float64) float64 {
	if now < before {
		before = 0
	}
	return max(now-before, 0)
}

func (d *delta) rate(grown float64) float64 {
	if d.seconds <= 0 {
		return 0
	}
	return grown / d.seconds
}

// byKey returns the samples of a name by their labels, without one label. Values of samples that
// differ only in that label are added.
func byKey(set figures.Set, name, without string) map[string]figures.Sample {
	by := make(map[string]figures.Sample, len(set[name]))
	for _, s := range set[name] {
		if _, ok := s.Labels[without]; ok {
			s.Labels = maps.Clone(s.Labels)
			delete(s.Labels, without)
		}
		key := figures.Key(s.Labels)
		if old, ok := by[key]; ok {
			s.Value += old.Value
		}
		by[key] = s
	}
	return by
}

// sum returns the common rate of all samples of a name.
func (d *delta) sum(name string) float64 {
	before, total := byKey(d.before, name, ""), 0.0
	for key, s := range byKey(d.now, name, "") {
		total += growth(s.Value, before[key].Value)
	}
	return d.rate(total)
}

// operations returns the called procedures, by name.
func (d *delta) operations() []Operation {
	list := []Operation{}
	by := func(name, without string) (now, before map[string]figures.Sample) {
		return byKey(d.now, name, without), byKey(d.before, name, without)
	}
	calls, callsBefore := by(nameCalls, "")
	in, inBefore := by(nameIn, "")
	out, outBefore := by(nameOut, "")
	errs, errsBefore := by(nameErrors, "status")
	took, tookBefore := by(nameTook, "")
	for key, s := range calls {
		n := growth(s.Value, callsBefore[key].Value)
		if n < 1 { // counts are whole numbers
			continue
		}
		o := Operation{Program: s.Labels["program"], Procedure: s.Labels["procedure"], Transport: s.Labels["transport"], Calls: d.rate(n),
			In: d.rate(growth(in[key].Value, inBefore[key].Value)), Out: d.rate(growth(out[key].Value, outBefore[key].Value)),
			Errors: d.rate(growth(errs[key].Value, errsBefore[key].Value))}
		h, earlier := took[key], tookBefore[key]
		if h.Count() < earlier.Count() {
			earlier = figures.Sample{}
		}
		if ran := growth(h.Count(), earlier.Count()); ran >= 1 {
			busy := growth(h.Value, earlier.Value)
			o.Mean, o.Queue = busy/ran, d.rate(busy)
			o.P99 = figures.Quantile(classesSince(h.Classes, earlier.Classes), 0.99)
		}
		list = append(list, o)
	}
	slices.SortFunc(list, compareOperations)
	return list
}

// compareOperations orders operations by name.
func compareOperations(a, b Operation) int {
	return cmp.Or(strings.Compare(a.Program, b.Program), strings.Compare(a.Procedure, b.Procedure), strings.Compare(a.Transport, b.Transport))
}

// classesSince subtracts the counts in before from classes.
func classesSince(now, before []figures.Class) []figures.Class {
	earlier := make(map[float64]float64, len(before))
	for _, c := range before {
		earlier[c.Seconds] = c.Calls
	}
	list := make([]figures.Class, 0, len(now))
	least := 0.0 // never falls, because classes are cumulative
	for _, c := range now {
		least = max(c.Calls-earlier[c.Seconds], least)
		list = append(list, figures.Class{Seconds: c.Seconds, Calls: least})
	}
	return list
}

// clientsSince computes the rates of connections. A connection is new if it is younger than the
// interval, or if a count is below the earlier count for its address.
func clientsSince(now, before []Client, seconds float64, restarted bool) []ClientRate {
	type id struct{ address, transport string }
	earlier := make(map[id]*Client, len(before))
	for i := range before {
		earlier[id{before[i].Address, before[i].Transport}] = &before[i]
	}
	d := delta{seconds: seconds}
	var list []ClientRate
	for i := range now {
		c := &now[i]
		b := earlier[id{c.Address, c.Transport}]
		if b == nil || restarted || c.Age < seconds || c.Calls < b.Calls || c.In < b.In || c.Out < b.Out {
			b = &Client{}
		}
		r := ClientRate{Address: c.Address, Transport: c.Transport, Exports: append([]string{}, c.Exports...), Users: d.users(c.Users, b.Users), Calls: d.rate(growth(c.Calls, b.Calls)),
			In: d.rate(growth(c.In, b.In)), Out: d.rate(growth(c.Out, b.Out)), Age: c.Age, Idle: c.Idle, XprtSec: cmp.Or(c.XprtSec, "none"), Sec: flavors(c.Users)}
		if c.TLS != nil {
			r.Cipher = c.TLS.Cipher
		}
		if c.RDMA != nil {
			r.Queue, r.Credits = c.RDMA.Used, c.RDMA.Granted
		}
		list = append(list, r)
	}
	return list
}

// flavors returns the users' flavors, each once, in the order of the users.
func flavors(users []User) []string {
	list := []string{}
	for i := range users {
		if sec := users[i].Sec; sec != "" && !slices.Contains(list, sec) {
			list = append(list, sec)
		}
	}
	return list
}

// users returns the users of a connection with calls between two snapshots, most calls first.
func (d *delta) users(now, before []User) []UserRate {
	earlier := make(map[userKey]float64, len(before))
	for i := range before {
		earlier[before[i].key()] = before[i].Calls
	}
	list := []UserRate{}
	for i := range now {
		u := &now[i]
		if n := growth(u.Calls, earlier[u.key()]); n >= 1 { // counts are whole numbers
			list = append(list, UserRate{u.Sec, u.UID, u.Principal, d.rate(n)})
		}
	}
	slices.SortStableFunc(list, func(a, b UserRate) int { return cmp.Compare(b.Calls, a.Calls) })
	return list
}

// A userKey identifies a user within one connection.
type userKey struct {
	sec, principal string
	uid            int64 // -1: none
}

func (u *User) key() userKey {
	k := userKey{u.Sec, u.Principal, -1}
	if u.UID != nil {
		k.uid = int64(*u.UID)
	}
	return k
}
