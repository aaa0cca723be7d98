module github.com/DataDog/zstd

go 1.25.0

require github.com/klauspost/compress v1.18.0
