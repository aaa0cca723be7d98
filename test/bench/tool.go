// nfsrdma bench as a process: its arguments, and the figures in its JSON.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A target is a server over one transport.
type target string

// The targets. CRC on is RDMA's default.
const (
	rdma    target = "rdma"    // CRC on
	rdmaOff target = "rdmaoff" // CRC off, as requested by Linux
	tcp     target = "tcp"
	ganesha target = "ganesha" // over TCP

	roce      target = "roce"
	roceLossy target = "rocelossy" // with 1 % packet loss in each direction
)

// targets returns the given targets that are available.
func (b *bed) targets(of ...target) []target {
	var there []target
	for _, t := range of {
		if t != ganesha || b.ganesha != nil {
			there = append(there, t)
		}
	}
	return there
}

// A job is one run of nfsrdma bench.
type job struct {
	target target
	server *server // nil: the target's
	dir    string  // below the export
	tests  string
	depth  int
	conns  int
	block  int           // of sequential tests; 0: 1 MiB
	size   int           // of the file; 0: fileSize
	time   time.Duration // of each test; 0: as configured
	raw    bool          // with raw TCP and its limits
	prefix []string      // words before the command, to run it in another namespace
	host   string        // instead of loopback
	peer   string        // the raw peer's address, if it is not on loopback
}

// micros is a time in microseconds; its JSON form is in seconds.
type micros float64

// UnmarshalJSON decodes seconds.
func (m *micros) UnmarshalJSON(b []byte) error {
	var seconds float64
	err := json.Unmarshal(b, &seconds)
	*m = micros(math.Round(seconds*1e9) / 1e3)
	return err
}

// A report is the part of the JSON of nfsrdma bench that we read.
type report struct {
	Raw struct {
		Stream   float64 `json:"stream_mib_s"`
		PingPong micros  `json:"ping_pong_seconds"`
		Limits   struct {
			Read     float64 `json:"read_mib_s"`
			ReadCRC  float64 `json:"read_crc_mib_s"`
			Sendfile float64 `json:"sendfile_mib_s"`
			Write    float64 `json:"write_mib_s"`
			WriteCRC float64 `json:"write_crc_mib_s"`
		} `json:"limits"`
	} `json:"raw_tcp"`
	Tests []testReport `json:"tests"`
}

// A testReport is the report of one test.
type testReport struct {
	Name      string  `json:"name"`
	PerSec    float64 `json:"calls_per_s"`
	MiBs      float64 `json:"mib_s"`
	AvgUs     micros  `json:"mean_seconds"`
	P50Us     micros  `json:"p50_seconds"`
	P99Us     micros  `json:"p99_seconds"`
	ServerCPU micros  `json:"server_cpu_seconds_per_call"`
	ClientCPU micros  `json:"client_cpu_seconds_per_call"`
	Entries   float64 `json:"entries_per_s"`
}

// UnmarshalJSON also reads the times of older revisions, with JSON in microseconds.
func (t *testReport) UnmarshalJSON(b []byte) error {
	type plain testReport
	var older struct {
		AvgUs     float64 `json:"avg_us"`
		P50Us     float64 `json:"p50_us"`
		P99Us     float64 `json:"p99_us"`
		ServerCPU float64 `json:"server_cpu_us_per_call"`
		ClientCPU float64 `json:"client_cpu_us_per_call"`
	}
	if err := errors.Join(json.Unmarshal(b, (*plain)(t)), json.Unmarshal(b, &older)); err != nil {
		return err
	}
	if older.AvgUs > 0 {
		t.AvgUs, t.P50Us, t.P99Us = micros(older.AvgUs), micros(older.P50Us), micros(older.P99Us)
		t.ServerCPU, t.ClientCPU = micros(older.ServerCPU), micros(older.ClientCPU)
	}
	return nil
}

// args returns a job's command line.
func (b *bed) args(j job) ([]string, error) {
	s, scheme, crc := b.ours, "nfs", "on"
	switch j.target {
	case rdma:
		scheme = "nfsrdma"
	case rdmaOff:
		scheme, crc = "nfsrdma", "off"
	case roce, roceLossy:
		scheme = "nfsrdma"
	case ganesha:
		if s = b.ganesha; s == nil {
			return nil, errNoGanesha
		}
	}
	if j.server != nil {
		s = j.server
	}
	programs := s.programs
	if programs == "" {
		programs = b.base
	}
	prefix := j.prefix
	if prefix == nil {
		prefix = b.client
	}
	peer := j.peer
	if peer == "" && j.raw {
		peer = b.peer
	}
	url := s.url(scheme, j.dir)
	if j.host != "" {
		url = strings.Replace(url, "127.0.0.1", j.host, 1)
	}
	d := j.time
	if d == 0 {
		d = b.config.duration
	}
	size := j.size
	if size == 0 {
		size = fileSize
	}
	args := append(slices.Clone(prefix), filepath.Join(programs, "nfsrdma"), "bench", "--json", "--crc", crc,
		"--tests", j.tests, "--size", strconv.Itoa(size), "--depth", strconv.Itoa(max(j.depth, 1)),
		"--duration", d.String(), "--server-pid", strconv.Itoa(s.pid))
	if j.conns > 1 {
		args = append(args, "--nconnect", strconv.Itoa(j.conns))
	}
	if s.mountPort != "" {
		args = append(args, "--mount-port", s.mountPort)
	}
	if j.target == roce || j.target == roceLossy {
		args = append(args, "--rdma", "roce")
	}
	if j.target == roceLossy {
		args = append(args, "--lose", "1")
	}
	if j.block != 0 {
		args = append(args, "--block", strconv.Itoa(j.block))
	}
	if !j.raw {
		args = append(args, "--no-raw")
	}
	if peer != "" {
		args = append(args, "--raw-peer", peer)
	}
	return append(args, url), nil
}

// bench runs a job to its end.
func (b *bed) bench(ctx context.Context, j job) (r report, err error) {
	args, err := b.args(j)
	if err != nil {
		return r, err
	}
	out, err := output(exec.CommandContext(ctx, args[0], args[1:]...))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// output runs a command and returns its standard output; its standard error is in the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// sample runs a job and adds its figures to the samples, under keys with the prefix at.
// at/TEST/TARGET is MiB/s for sequential tests, entries/s for listings, calls/s for others. The
// suffixes /us, /p50 and /p99 are the mean, median and 99th percentile in µs. /server is the
// server's CPU time per call in µs; /cpu and /clientcpu are the server's and the client's in the
// unit of cpuUnit. at/raw/… is raw TCP.
func (b *bed) sample(ctx context.Context, at string, j job) error {
	r, err := b.bench(ctx, j)
	if err == nil {
		b.samples.addReport(at, j.target, r)
	}
	return err
}

// Units of CPU time.
const perGiB = "ms/GiB"

// cpuUnit returns the unit of the CPU time under a key: per GiB if whole blocks are transferred,
// otherwise per call.
func cpuUnit(key string) string {
	if strings.Contains(key, "/read/") || strings.Contains(key, "/write/") {
		return perGiB
	}
	return perCall
}

func (s samples) addReport(at string, t target, r report) {
	for _, x := range r.Tests {
		key := at + "/" + x.Name + "/" + string(t)
		switch x.Name {
		case "read", "write":
			s.add(key, x.MiBs)
		case "readdirplus":
			s.add(key, x.Entries)
		default:
			s.add(key, x.PerSec)
		}
		s.add(key+"/us", float64(x.AvgUs))
		s.add(key+"/p50", float64(x.P50Us))
		s.add(key+"/p99", float64(x.P99Us))
		s.add(key+"/server", float64(x.ServerCPU))
		scale := 1.0
		if cpuUnit(key) == perGiB {
			scale = x.PerSec / x.MiBs * 1024 / 1000
		}
		s.add(key+"/cpu", float64(x.ServerCPU)*scale)
		s.add(key+"/clientcpu", float64(x.ClientCPU)*scale)
	}
	l := r.Raw.Limits
	for name, v := range map[string]float64{"stream": r.Raw.Stream, "pingpong": float64(r.Raw.PingPong), "read": l.Read, "readcrc": l.ReadCRC,
		"sendfile": l.Sendfile, "write": l.Write, "writecrc": l.WriteCRC} {
		if v > 0 {
			s.add(at+"/raw/"+name, v)
		}
	}
}
