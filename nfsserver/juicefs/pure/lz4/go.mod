module github.com/hungys/go-lz4

go 1.25.0

require github.com/pierrec/lz4/v4 v4.1.22
