package apiserver

import (
	"encoding/json"
	"net/http"

	"k8s.io/apimachinery/pkg/version"
)

func serveVersion(w http.ResponseWriter, v version.Info) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeBytes(w, http.StatusOK, mediaJSON, data)
}
