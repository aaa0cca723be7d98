// The page of figures for a browser: tables that the server fills in, and live charts where there is JavaScript.

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

// pagePolicy has a browser load and run what this server gives out for the page, and nothing else.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageFigures is what the page shows at one moment.
type pageFigures struct {
	Started int64       `json:"started_unix_nanoseconds"` // tells counters that began again from those that went on
	Up      float64     `json:"up_seconds"`               // by a clock that nobody sets
	Tables  []pageTable `json:"tables"`

	Program, Now, Version string `json:"-"`
}

// handlePage adds the page and its parts to mux.
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

// pageHeader sets what holds for the page and all its parts.
func pageHeader(h http.Header) {
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store") // a program that was upgraded has its own parts, and figures age at once
}

// pageFigures gathers what the page shows now.
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
	m.give(w, "text/html; charset=utf-8", func(p *pageFigures, b *bytes.Buffer) error { return pageTemplate.Execute(b, p) })
}

func (m *metrics) servePageJSON(w http.ResponseWriter, _ *http.Request) {
	m.give(w, "application/json", func(p *pageFigures, b *bytes.Buffer) error { return json.NewEncoder(b).Encode(p) })
}

// give sends the figures as write puts them, all or, with the reason, none.
func (m *metrics) give(w http.ResponseWriter, kind string, write func(*pageFigures, *bytes.Buffer) error) {
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
