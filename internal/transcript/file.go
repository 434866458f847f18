package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
)

// PlayFile sends all steps of a file of requests and returns the answers.
func PlayFile(ctx context.Context, p *Player, file string) ([]Answer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	steps, err := Parse(string(text))
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(steps))
	for i, s := range steps {
		if answers[i], err = p.Play(ctx, s); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// Write records answers in a file.
func Write(file string, answers []Answer) error {
	var b bytes.Buffer
	b.WriteString("[\n")
	for i, a := range answers {
		if i > 0 {
			b.WriteString(",\n")
		}
		data, err := marshal(a)
		if err != nil {
			return err
		}
		b.Write(data)
	}
	b.WriteString("\n]\n")
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// marshal leaves <, > and & as they are.
func marshal(a Answer) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// Read returns recorded answers.
func Read(file string) ([]Answer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var answers []Answer
	return answers, json.Unmarshal(data, &answers)
}
