module github.com/onceflow/onceflow/sdk/go

go 1.23
