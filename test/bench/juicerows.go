// The rows of the JuiceFS groups. They are measured only if they are named, because their programs
// take minutes to compile.

package main

import "fmt"

// extraGroups are measured only if -rows names them.
var extraGroups = []group{
	{"juicefs", (*bed).measureJuice, juiceRows()},
	{"juicefs-calls", (*bed).measureCalls, callsRows()},
	{"juicefs-profile", (*bed).measureProfile, profileRows()},
	{"juicefs-memory", (*bed).measureMemory, memoryRows()},
}

const (
	perMiB  = "µs/MiB"
	perFile = "µs/file"
	perCall = "µs/call"
	ofJuice = "JuiceFS's mount"
)

// mountTitles are the mounts' titles in the table.
var mountTitles = map[string]string{mountJuice: "JuiceFS's mount", mountOurs: "nfsrdma mount, nfsrdmad-juicefs", mountOsfs: "nfsrdma mount, nfsrdmad"}

// juiceRows returns for each kind of work the figure of each mount, and the CPU time of all
// processes.
func juiceRows() (rows []row) {
	for _, w := range []struct{ key, title, unit, cpu string }{
		{"warm/read", "READ 1 MiB, warm", mib, perMiB},
		{"cold/read", "READ 1 MiB, cold", mib, perMiB},
		{"warm/write", "WRITE 1 MiB + fsync", mib, perMiB},
		{"warm/create", "create 4 KiB", "files/s", perFile},
		{"warm/create8", "create 4 KiB, 8 at once", "files/s", perFile},
		{"cold/stat", "stat, cold", "files/s", perFile},
		{"warm/remove", "remove", "files/s", perFile},
		{"warm/remove8", "remove, 8 at once", "files/s", perFile},
		{"cold/walk", "readdir and stat of 10,000, cold", "files/s", perFile},
		{"cold/list", "ls -l of 10,000, cold", "files/s", perFile},
	} {
		for _, cpu := range []string{"", "/cpu"} {
			for _, m := range mountKinds {
				if m == mountOsfs && w.key == "cold/read" {
					continue // a directory in memory is never cold
				}
				r := row{name: w.title + ", " + mountTitles[m], unit: w.unit, value: "juicefs/" + w.key + "/" + m + cpu}
				if cpu != "" {
					r.name, r.unit = "CPU of all processes, "+r.name, w.cpu
				}
				if m != mountJuice {
					r.against, r.what = "juicefs/"+w.key+"/"+mountJuice+cpu, ofJuice
				}
				rows = append(rows, r)
			}
		}
	}
	for _, t := range []struct{ test, title, unit string }{
		{"read", "READ 1 MiB", mib}, {"write", "WRITE 1 MiB + COMMIT", mib}, {"randread", "READ 4 KiB anywhere", calls},
		{"getattr", "GETATTR", calls}, {"lookup", "LOOKUP", calls}, {"readdirplus", "READDIRPLUS", "entries/s"},
	} {
		v, o := "juicefs/direct/"+t.test+"/rdma", "juicefs/direct/osfs/"+t.test+"/rdma"
		rows = append(rows, row{name: t.title + ", nfsrdma bench, nfsrdmad-juicefs", unit: t.unit, value: v, against: o, what: "nfsrdmad"},
			row{name: "CPU of the server for it", unit: perCall, value: v + "/server", against: o + "/server", what: "nfsrdmad"})
	}
	return rows
}

// callsRows returns each call's cost by number of servers.
func callsRows() (rows []row) {
	for _, k := range callKinds {
		title := k.name
		if title == "WRITE" {
			title = "WRITE 4 KiB + COMMIT"
		}
		for _, n := range serverCounts {
			key := fmt.Sprintf("juicefs-calls/%d/%s", n, k.name)
			first := fmt.Sprintf("juicefs-calls/%d/%s", serverCounts[0], k.name)
			for _, c := range []struct{ of, name, unit string }{
				{"", "%s, %s", calls}, {"/server", "CPU of nfsrdmad-juicefs, %s, %s", perCall}, {"/redis", "CPU of Redis, %s, %s", perCall},
				{"/commands", "commands of Redis, %s, %s", "commands/call"}, {"/stored", "bytes of objects, %s, %s", "B/call"},
				{"/core", "one processor of Redis has, %s, %s", calls},
			} {
				if c.of == "/stored" && k.name != "WRITE" {
					continue
				}
				r := row{name: fmt.Sprintf(c.name, title, servers(n)), unit: c.unit, value: key + c.of}
				if n > 1 && c.of != "/stored" {
					r.against, r.what = first+c.of, servers(1)
				}
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// servers formats a number of servers.
func servers(n int) string {
	if n == 1 {
		return "1 server"
	}
	return fmt.Sprintf("%d servers", n)
}

// profileRows returns the owners of the server's CPU time.
func profileRows() (rows []row) {
	for _, kind := range profiled {
		for _, o := range owners {
			rows = append(rows, row{name: kind + ": " + o.title, unit: "%", value: "juicefs-profile/" + kind + "/" + o.key})
		}
	}
	return rows
}

// memoryRows returns the resident memory after all files of a tree have been looked up.
func memoryRows() (rows []row) {
	for _, m := range mountKinds {
		for _, p := range []struct{ process, title string }{{"client", "process of the mount"}, {"server", "server"}} {
			if m == mountJuice && p.process == "server" {
				continue
			}
			key := "juicefs-memory/" + m + "/" + p.process
			rows = append(rows, row{name: mountTitles[m] + ", " + p.title + ", at first", unit: "MB", value: key + "/before"},
				row{name: mountTitles[m] + ", " + p.title + ", all files looked at", unit: "MB", value: key + "/after"})
		}
		rows = append(rows, row{name: mountTitles[m] + ", a look at all files", unit: "s", value: "juicefs-memory/" + m + "/seconds"})
	}
	return append(rows, row{name: "Redis, for a file", unit: "B", value: "juicefs-memory/redis"})
}
