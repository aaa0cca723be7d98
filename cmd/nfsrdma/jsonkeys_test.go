// The reference has each JSON key that commands can print, including optional ones.

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/doctor"
	"github.com/nfsrdma/nfsrdma/cmd/internal/jsontest"
	"github.com/nfsrdma/nfsrdma/cmd/internal/listing"
	"github.com/nfsrdma/nfsrdma/cmd/internal/top"
	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs"
)

func TestDocumentedKeys(t *testing.T) {
	for command, v := range map[string]any{
		"ls": &[]listing.Object{}, "stat": &[]listing.Object{}, "df": &[]dfRow{}, "showmount": &[]jsonExport{}, "ping": &pingReport{}, "doctor": &doctor.Report{},
		"top": &top.Report{}, "bench": &bench.Report{}, "bench --mount": &bench.MountReport{}, "rnic-bench": &bench.VerbsReport{},
		"verbs pingpong": &verbs.PingpongReport{}, "verbs perf": &verbs.PerfReport{},
	} {
		jsontest.Fill(v)
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		jsontest.Documented(t, "../../docs", "nfsrdma", strings.Fields(command), string(b))
	}
	var out bytes.Buffer
	var figures mountFigures
	jsontest.Fill(&figures)
	if err := printFigures(&out, &figures, true); err != nil {
		t.Fatalf("printFigures: %v", err)
	}
	jsontest.Documented(t, "../../docs", "nfsrdma", []string{"mountstats"}, out.String())
}
