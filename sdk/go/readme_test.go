package flowdsl_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	goBlock  = regexp.MustCompile("(?s)```go\n(.*?)```")
	unneeded = regexp.MustCompile(`grpcnode`)
)

// Every Go sample of the README and of the guide is complete as printed: it is formatted, compiles, and its tests pass. Samples that
// need the module grpcnode are tested there.
func TestSamplesOfTheDocs(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, page := range []string{"README.md", "../../docs/guide/nodes-in-go.md"} {
		text, err := os.ReadFile(page)
		if os.IsNotExist(err) && page != "README.md" {
			continue // the module without the repository
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
			if unneeded.MatchString(block[1]) {
				continue
			}
			tested++
			folder := t.TempDir()
			name := "main.go"
			if strings.Contains(block[1], "func Test") {
				name = "sample_test.go"
			}
			module := "module sample\n\ngo 1.23\n\nrequire github.com/onceflow/onceflow/sdk/go v0.1.0\n\nreplace github.com/onceflow/onceflow/sdk/go => " + root + "\n"
			for file, content := range map[string]string{"go.mod": module, name: block[1]} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, command := range [][]string{{"gofmt", "-d", "."}, {"go", "test", "."}} {
				run := exec.Command(command[0], command[1:]...)
				run.Dir = folder
				if output, err := run.CombinedOutput(); err != nil || (command[0] == "gofmt" && len(output) > 0) {
					t.Errorf("%s: %v: %v\n%s", page, command, err, output)
				}
			}
		}
	}
	if tested < 2 {
		t.Errorf("%d samples were found", tested)
	}
}
