// The page of metrics for a browser: tables filled by the server, and live charts with JavaScript.

package program

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"time"
)

//go:embed page
var pageFiles embed.FS

var pageTemplate = template.Must(template.ParseFS(pageFiles, "page/index.html"))

// pagePolicy permits a browser to load and run only this server's resources.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A pageFigures is the page's content at one moment.
type pageFigures struct {
	// distinguishes restarted counters from continued ones
	Started int64       `json:"started_unix_nanoseconds"`
	Up      float64     `json:"up_seconds"` // by a monotonic clock
	Tables  []pageTable `json:"tables"`

	Program, Now, Version string `json:"-"`
}

// handlePage adds the page and its resources to mux.
func (m *metrics) handlePage(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", m.servePage)
	mux.HandleFunc("GET /figures.json", m.servePageJSON)
	for _, name := range []string{"page.css", "page.js"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			pageHeader(w.Header())
			http.ServeFileFS(w, r, pageFiles, "page/"+name)
		})
	}
}

// pageHeader sets the headers of the page and its resources.
func pageHeader(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	// no cache: an upgraded program has new resources, and metrics soon change
	h.Set("Cache-Control", "no-store")
}

// pageFigures collects the present content of the metrics page.
func (m *metrics) pageFigures() (*pageFigures, error) {
	all, err := m.samples()
	if err != nil {
		return nil, err
	}
	p := &pageFigures{Program: m.program, Started: m.started.UnixNano(), Up: time.Since(m.started).Seconds(), Tables: pageTables(), Now: time.Now().Format(time.RFC1123Z)}
	for i := range p.Tables {
		p.Tables[i].fill(all)
	}
	for _, s := range all[namespace+"_build_info"] {
		p.Version = s.Labels["version"]
	}
	return p, nil
}

func (m *metrics) servePage(w http.ResponseWriter, _ *http.Request) {
	m.sendFigures(w, "text/html; charset=utf-8", func(p *pageFigures, b *bytes.Buffer) error { return pageTemplate.Execute(b, p) })
}

func (m *metrics) servePageJSON(w http.ResponseWriter, _ *http.Request) {
	m.sendFigures(w, "application/json", func(p *pageFigures, b *bytes.Buffer) error { return json.NewEncoder(b).Encode(p) })
}

// sendFigures sends the metrics as formatted by write, or only an error.
func (m *metrics) sendFigures(w http.ResponseWriter, kind string, write func(*pageFigures, *bytes.Buffer) error) {
	pageHeader(w.Header())
	var b bytes.Buffer
	p, err := m.pageFigures()
	if err == nil {
		err = write(p, &b)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Write(b.Bytes())
}
