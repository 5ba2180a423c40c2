// Calls Once as the JSON of its argument says, one plan after the other, and prints a line of JSON for each call. The Python program beside it does the same.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"example.com/client/onceflow"
)

type call struct {
	Scope        string
	Key          string
	Input        json.RawMessage
	Fingerprint  string
	Effect       string
	LeaseMs      int
	WaitMs       *int
	KeepFailures bool
	Does         string
	Result       json.RawMessage
}

type clientPlan struct {
	URL       string
	Token     string
	RequestMs int
	SaveMs    int
	CaFile    string
	Provider  string
	Calls     []call
	Parallel  bool
}

var plan clientPlan

var printing sync.Mutex

func show(line map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func ask(path string, headers map[string]string) (json.RawMessage, error) {
	request, err := http.NewRequest(http.MethodPost, plan.Provider+path, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

type declined struct{}

func (declined) Error() string { return "the card was declined" }

// handlerOf ends the caller's context a while after the handler has returned, if SaveMs says so.
func handlerOf(one call, cancel func()) func(context.Context, onceflow.Attempt) (any, error) {
	return func(ctx context.Context, attempt onceflow.Attempt) (any, error) {
		if plan.SaveMs > 0 {
			defer time.AfterFunc(time.Duration(plan.SaveMs)*time.Millisecond, cancel)
		}
		if one.Does == "notApplied" {
			return nil, onceflow.NotApplied(errors.New("the provider said no"))
		}
		result, err := ask("effects", map[string]string{"idempotency-key": attempt.EffectKey, "x-attempt": strconv.Itoa(attempt.Number), "x-caller": "go"})
		if err != nil {
			return nil, err
		}
		switch one.Does {
		case "fail":
			return nil, declined{}
		case "panic":
			panic("the handler panics")
		case "waitLost":
			<-ctx.Done()
			show(map[string]any{"lost": errors.Is(context.Cause(ctx), onceflow.ErrLeaseLost)})
		case "check":
			<-ctx.Done()
			return nil, ctx.Err()
		case "notJson":
			return int64(1) << 60, nil
		case "long":
			return strings.Repeat("x", 2_000_000), nil
		}
		if one.Result != nil {
			return one.Result, nil
		}
		return result, nil
	}
}

func reconcile(_ context.Context, request onceflow.ReconcileRequest) (onceflow.Reconciled, error) {
	var answer struct{ Found json.RawMessage }
	text, err := ask("find", map[string]string{"idempotency-key": request.EffectKey})
	if err != nil {
		return onceflow.Unknown, err
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Found == nil {
		return onceflow.Absent, err
	}
	return onceflow.Found(answer.Found), nil
}

func run(client *onceflow.Client, one call) {
	operation := onceflow.Operation{
		Scope: one.Scope, Key: one.Key, Fingerprint: one.Fingerprint, Effect: onceflow.Effect(one.Effect),
		Lease: time.Duration(one.LeaseMs) * time.Millisecond, KeepFailures: one.KeepFailures,
	}
	if one.Input != nil {
		operation.Input = one.Input
	}
	if one.WaitMs != nil {
		if operation.Wait = time.Duration(*one.WaitMs) * time.Millisecond; operation.Wait == 0 {
			operation.Wait = onceflow.NoWait
		}
	}
	if one.Effect == "reconcile" {
		operation.Reconcile = reconcile
	}
	defer func() {
		if thrown := recover(); thrown != nil {
			show(map[string]any{"error": "PANIC", "message": fmt.Sprint(thrown)})
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result, err := onceflow.Once(ctx, client, operation, handlerOf(one, cancel))
	known := new(onceflow.Error)
	switch {
	case err == nil:
		show(map[string]any{"status": result.Status, "value": result.Value, "attempt": result.Attempt})
	case errors.As(err, &known):
		line := map[string]any{"error": known.Code, "message": known.Error(), "attempt": known.Attempt, "retryable": known.Retryable}
		if known.Failure != nil {
			line["failureCode"] = known.Failure.Code
		}
		show(line)
	case errors.As(err, new(declined)):
		show(map[string]any{"error": "DECLINED", "message": err.Error()})
	default:
		line := map[string]any{"error": "OTHER", "message": err.Error()}
		if err.Error() == "the provider said no" {
			line["error"] = "NOT_APPLIED"
		}
		show(line)
	}
}

func main() {
	var plans []clientPlan
	if err := json.Unmarshal([]byte(os.Args[1]), &plans); err != nil {
		panic(err)
	}
	for _, plan = range plans {
		execute()
	}
}

func execute() {
	config := onceflow.Config{URL: plan.URL, Token: plan.Token, RequestTimeout: time.Duration(plan.RequestMs) * time.Millisecond}
	if plan.CaFile != "" {
		text, err := os.ReadFile(plan.CaFile)
		if err != nil {
			panic(err)
		}
		config.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		config.TLS.RootCAs.AppendCertsFromPEM(text)
	}
	client, err := onceflow.New(config)
	if err != nil {
		known := new(onceflow.Error)
		errors.As(err, &known)
		show(map[string]any{"error": known.Code, "message": known.Error()})
		return
	}
	if !plan.Parallel {
		for _, one := range plan.Calls {
			run(client, one)
		}
		return
	}
	var running sync.WaitGroup
	for _, one := range plan.Calls {
		running.Add(1)
		go func(one call) {
			defer running.Done()
			run(client, one)
		}(one)
	}
	running.Wait()
}
