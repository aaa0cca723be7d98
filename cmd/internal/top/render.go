// A report as text lines: totals, operations, clients.

package top

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// A style has the layout settings of a report.
type style struct {
	width, height int // the screen's size; 0: unlimited
	order         Order
	colors        bool
}

// ECMA-48 attributes of lines.
const (
	bold    = "\x1b[1m"
	reverse = "\x1b[7m"
	red     = "\x1b[31m"
	plain   = "\x1b[0m"
)

func (s *style) with(attribute, line string) string {
	if !s.colors || line == "" {
		return line
	}
	return attribute + line + plain
}

// cut truncates a line to the width.
func (s *style) cut(line string) string {
	if s.width <= 0 {
		return line
	}
	return runewidth.Truncate(line, s.width, "")
}

// lines formats a report. The result fits the screen in number and length of lines.
func (s *style) lines(r *Report) []string {
	var all []string
	add := func(attribute string, lines ...string) {
		for _, l := range lines {
			all = append(all, s.with(attribute, s.cut(l)))
		}
	}
	add(bold, s.title(r))
	add("", s.totals(r)...)
	if warning := warnings(r); warning != "" {
		add(red, warning)
	}
	s.order.operations(r.Operations)
	s.order.clients(r.Clients)
	operations, clients := rows(operationColumns, visibleRows(s, r.Operations), s.width), rows(clientColumns, visibleRows(s, r.Clients), s.width)
	if s.height > 0 {
		operations, clients = s.divideLines(operations, clients, s.height-len(all), r.ClientsSeen)
	}
	for i, table := range [][]string{operations, clients} {
		if len(table) == 0 || i == 1 && !r.ClientsSeen {
			continue
		}
		add("", "")
		add(reverse, table[0])
		add("", table[1:]...)
	}
	if s.height > 0 && len(all) > s.height {
		all = all[:s.height]
	}
	return all
}

// visibleRows returns the rows that can fit the screen. Only these are formatted: a server can
// report a hundred thousand rows, and each key redraws the table.
func visibleRows[T any](s *style, items []T) []T {
	if s.height > 0 {
		return items[:min(len(items), s.height)]
	}
	return items
}

// divideLines divides the remaining lines between two tables: each gets half, and the lines that
// the other table does not need.
func (s *style) divideLines(operations, clients []string, left int, both bool) (o, c []string) {
	if !both {
		return operations[:max(min(len(operations), left-1), 0)], nil
	}
	left -= 2 // an empty line above each table
	half := max(left/2, left-len(clients))
	o = operations[:max(min(len(operations), half), 0)]
	return o, clients[:max(min(len(clients), left-len(o)), 0)]
}

func (s *style) title(r *Report) string {
	title := "nfsrdma top: " + text.HideControl(r.Server)
	if r.Version != "" {
		title += ", nfsrdmad " + text.HideControl(r.Version[:min(len(r.Version), maxNameBytes)])
	}
	if r.Uptime > 0 {
		title += ", up " + formatDuration(r.Uptime)
	}
	return title + ", " + r.Time.Local().Format("15:04:05") + ", " + fmt.Sprintf("%.1f s", r.Interval)
}

func (s *style) totals(r *Report) []string {
	var conns []string
	total := 0
	for _, by := range slices.Sorted(maps.Keys(r.Connections)) {
		if n := r.Connections[by]; n > 0 {
			conns = append(conns, fmt.Sprintf("%d %s", n, safeName(by)))
			total += n
		}
	}
	of := ""
	if total > 0 {
		of = " (" + strings.Join(conns, ", ") + ")"
	}
	return []string{
		fmt.Sprintf("calls %s/s   in %s MiB/s   out %s MiB/s   errors %s/s   repeated %s/s", formatCount(r.Calls), formatMiB(r.In), formatMiB(r.Out), formatCount(r.Errors), formatCount(r.Repeated)),
		fmt.Sprintf("cpu %.0f%%   memory %s   data under way %s of %s   connections %d%s", min(100*r.CPU, 1e6), text.Size(uint64(r.Memory)), text.Size(uint64(r.BudgetUsed)),
			text.Size(uint64(r.Budget)), total, of),
		fmt.Sprintf("credits used %s of %s   locks %.0f   waiting for locks %.0f", formatCount(r.Queued), formatCount(r.Credits), r.Locks, r.LocksWaiting),
	}
}

// warnings returns one line about abnormal conditions, or "".
func warnings(r *Report) string {
	var list []string
	if r.Restarted {
		list = append(list, "the server has started again")
	}
	for _, w := range []struct {
		n    float64
		what string
	}{{r.Refused, "refused %s/s"}, {r.Retransmissions, "RoCE retransmissions %s/s"}, {r.LocksLost, "locks lost %s/s"}, {r.Waiting, "connections that wait for memory: %s"}} {
		if w.n > 0 {
			list = append(list, fmt.Sprintf(w.what, formatCount(w.n)))
		}
	}
	return strings.Join(list, "   ")
}

var operationColumns = []column[Operation]{
	{"OPERATION", 0, true, func(o *Operation) string {
		if o.Program == "nfs" {
			return safeName(o.Procedure)
		}
		return safeName(o.Program) + " " + safeName(o.Procedure)
	}},
	{"OVER", 6, true, func(o *Operation) string { return safeName(o.Transport) }},
	{"CALLS/s", 1, false, func(o *Operation) string { return formatCount(o.Calls) }},
	{"IN MiB/s", 4, false, func(o *Operation) string { return formatMiB(o.In) }},
	{"OUT MiB/s", 5, false, func(o *Operation) string { return formatMiB(o.Out) }},
	{"MEAN", 2, false, func(o *Operation) string { return formatSeconds(o.Mean) }},
	{"P99", 3, false, func(o *Operation) string { return formatSeconds(o.P99) }},
	{"QUEUE", 8, false, func(o *Operation) string { return formatCount(o.Queue) }},
	{"ERRORS/s", 7, false, func(o *Operation) string { return formatCount(o.Errors) }},
}

var clientColumns = []column[ClientRate]{
	{"CLIENT", 0, true, func(c *ClientRate) string { return safeName(c.Address) }},
	{"OVER", 4, true, func(c *ClientRate) string { return safeName(c.Transport) }},
	{"CALLS/s", 1, false, func(c *ClientRate) string { return formatCount(c.Calls) }},
	{"IN MiB/s", 2, false, func(c *ClientRate) string { return formatMiB(c.In) }},
	{"OUT MiB/s", 3, false, func(c *ClientRate) string { return formatMiB(c.Out) }},
	{"CREDITS", 6, false, func(c *ClientRate) string {
		if c.Credits <= 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f/%.0f", c.Queue, c.Credits)
	}},
	{"AGE", 8, false, func(c *ClientRate) string { return formatDuration(c.Age) }},
	{"IDLE", 5, false, func(c *ClientRate) string { return formatDuration(c.Idle) }},
	{"SECURITY", 7, true, securityCell},
	{"USERS", 10, true, func(c *ClientRate) string { return usersCell(c.Users) }},
	{"EXPORTS", 9, true, func(c *ClientRate) string {
		list := make([]string, len(c.Exports))
		for i, x := range c.Exports {
			list[i] = safeName(x)
		}
		if len(list) == 0 {
			return "-"
		}
		return strings.Join(list, ",")
	}},
	{"CIPHER", 11, true, func(c *ClientRate) string { return safeName(c.Cipher) }},
}

// securityCell formats a connection's protection by TLS, and the flavors of its users.
func securityCell(c *ClientRate) string {
	var words []string
	if c.XprtSec != "none" {
		words = append(words, safeName(c.XprtSec))
	}
	for _, sec := range c.Sec {
		words = append(words, safeName(sec))
	}
	if words == nil {
		return "-"
	}
	return strings.Join(words, ",")
}

// usersShown is the number of users shown per connection.
const usersShown = 3

// usersCell formats the users with most calls, and the number of others.
func usersCell(users []UserRate) string {
	if len(users) == 0 {
		return "-"
	}
	words := make([]string, 0, usersShown+1)
	for i, u := range users {
		switch {
		case i == usersShown:
			words = append(words, fmt.Sprintf("+%d", len(users)-i))
			return strings.Join(words, ",")
		case u.UID == nil && u.Principal != "":
			words = append(words, safeName(u.Principal))
		case u.UID == nil:
			words = append(words, "none")
		default:
			words = append(words, strconv.FormatUint(uint64(*u.UID), 10))
		}
	}
	return strings.Join(words, ",")
}
