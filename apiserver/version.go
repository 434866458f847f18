package apiserver

import (
	"cmp"
	"encoding/json"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"

	"k8s.io/apimachinery/pkg/version"
)

// FillVersion completes a version with what the running program knows of itself: compiler, platform, and the commit that it
// was built from, if it was built in a checkout. It emulates its own version and is compatible with the minor version
// before (KEP-4330).
func FillVersion(v version.Info) version.Info {
	if minor, err := strconv.Atoi(v.Minor); err == nil && minor > 0 {
		v.EmulationMajor, v.EmulationMinor = cmp.Or(v.EmulationMajor, v.Major), cmp.Or(v.EmulationMinor, v.Minor)
		v.MinCompatibilityMajor = cmp.Or(v.MinCompatibilityMajor, v.Major)
		v.MinCompatibilityMinor = cmp.Or(v.MinCompatibilityMinor, strconv.Itoa(minor-1))
	}
	v.GoVersion, v.Compiler = cmp.Or(v.GoVersion, runtime.Version()), cmp.Or(v.Compiler, runtime.Compiler)
	v.Platform = cmp.Or(v.Platform, runtime.GOOS+"/"+runtime.GOARCH)
	build, ok := debug.ReadBuildInfo()
	if v.GitCommit == "" && ok {
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				v.GitCommit = s.Value
			case "vcs.time":
				v.BuildDate = cmp.Or(v.BuildDate, s.Value)
			case "vcs.modified":
				v.GitTreeState = cmp.Or(v.GitTreeState, map[string]string{"false": "clean", "true": "dirty"}[s.Value])
			}
		}
	}
	v.BuildDate = cmp.Or(v.BuildDate, "1970-01-01T00:00:00Z") // as upstream's of an unknown one
	return v
}

func serveVersion(w http.ResponseWriter, v version.Info) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBytes(w, http.StatusOK, format{mediaType: mediaJSON}, data)
}
