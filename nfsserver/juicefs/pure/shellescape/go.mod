module github.com/oliverisaac/shellescape

go 1.25.0
